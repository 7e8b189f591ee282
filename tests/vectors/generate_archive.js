// The archive of the thread of `generate.js`, computed without our Python code.
//
//     node tests/vectors/generate_archive.js > tests/vectors/archive.json
//
// A list of its lines. A page's content digest is that of the page without `cursor` and
// `pageDigest`; its page digest is that of {content, cursor}, without `cursor` on the last page. What
// a cursor holds is the exporting store's own affair, so here they are only names.
"use strict";

const { EMPTY_TAIL, canonical, sha256, thread, write } = require("./generate.js");

const SECTIONS = ["admissions", "abortCommands", "approvals", "resolutions", "deliveries"];

const batches = thread();
let sequence = 0;
let tail = EMPTY_TAIL;
const pages = batches.map((batch) => {
  const records = batch.records.map((each) => JSON.parse(each.canonical));
  const page = {
    section: "batches",
    batch: {
      batchId: batch.batchId,
      producerId: batch.producerId,
      epoch: "999999999999999999",
      firstSequence: sequence + 1,
      previousTailDigest: tail,
      tailDigest: batch.tailDigest,
      records,
    },
    // The continuation of the last batch names its run's input and its model's answer.
    dependencies: sequence === 4 ? ["record-2", "record-4"] : [],
  };
  sequence += records.length;
  tail = batch.tailDigest;
  return page;
});
for (const section of SECTIONS) {
  pages.push({ section, facts: [], dependencies: [] });
}

let previousPageDigest = EMPTY_TAIL;
const lines = pages.map((page, index) => {
  const content = {
    ...page,
    format: "effect-agent/thread-transfer@1",
    recordFormat: "effect-agent/thread@3",
    threadId: "thread \u{1f600}",
    page: index + 1,
    captured: { sequence, digest: tail, epoch: "999999999999999999", factRevision: 7 },
    previousPageDigest,
  };
  const cursor = index + 1 < pages.length ? { cursor: "cursor-" + String(index + 1) } : {};
  const pageDigest = sha256(canonical({ content: sha256(canonical(content)), ...cursor }));
  previousPageDigest = pageDigest;
  return canonical({ ...content, ...cursor, pageDigest });
});
write(lines);
