// The canonical form and the digest chain of the record format, computed without our Python code.
//
//     node tests/vectors/generate.js > tests/vectors/vectors.json
//
// Canonical JSON is RFC 8785: keys in the order of their UTF-16 code units, numbers and text as
// JSON.stringify writes them. Digests are the lowercase hexadecimal SHA-256 of UTF-8 text.
"use strict";

const crypto = require("node:crypto");

const EMPTY_TAIL = "0".repeat(64);

function canonical(value) {
  if (Array.isArray(value)) {
    return "[" + value.map(canonical).join(",") + "]";
  }
  if (value !== null && typeof value === "object") {
    const members = Object.keys(value)
      .sort() // without a function it compares UTF-16 code units
      .map((key) => JSON.stringify(key) + ":" + canonical(value[key]));
    return "{" + members.join(",") + "}";
  }
  return JSON.stringify(value);
}

function sha256(text) {
  return crypto.createHash("sha256").update(text, "utf8").digest("hex");
}

// --- Numbers ------------------------------------------------------------------------------------

const NUMBERS = [
  "0", "-0", "1.0", "-1.0", "0.1", "0.5", "1e16", "1e20", "1e21", "1E+21", "1.5e300", "1e-6",
  "1e-7", "5e-324", "-5e-324", "2.2250738585072014e-308", "1.7976931348623157e308",
  "123456789012345680000",
  "9007199254740991", "9007199254740992", "-9007199254740992", "10000000000000000",
  "333333333.3333333", "0.30000000000000004", "100", "1e2", "1.10", "18446744073709552000",
  "295147905179352830000", "1e22", "1e23", "4.35", "0.000001", "0.0000001",
];

// Integers beyond 2^53: whether the ECMAScript text of the nearest double is the same number.
const INTEGERS = [
  "9007199254740992", "9007199254740993", "9007199254740994", "9007199254740995",
  "-9007199254740993", "10000000000000000", "10000000000000001", "18446744073709551615",
  "18446744073709551616", "18446744073709552000", "100000000000000000000",
  "1" + "0".repeat(22), "1" + "0".repeat(23), "1" + "0".repeat(308),
  "1" + "0".repeat(309), "1" + "0".repeat(400), "295147905179352825856", "295147905179352830000",
];

function plainDigits(number) {
  const [mantissa, exponent = "0"] = String(number).split("e");
  const [whole, fraction = ""] = mantissa.split(".");
  return whole + fraction + "0".repeat(Number(exponent) - fraction.length);
}

function isExact(text) {
  const number = Number(text);
  return Number.isFinite(number) && BigInt(plainDigits(number)) === BigInt(text);
}

// Doubles from a fixed sequence of bits, so that every exponent has its turn.
function someDoubles(count) {
  const view = new DataView(new ArrayBuffer(8));
  const doubles = [];
  let state = 20300102n;
  while (doubles.length < count) {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    view.setBigUint64(0, state ^ (state >> 29n));
    const number = view.getFloat64(0);
    if (Number.isFinite(number)) {
      const bits = view.getBigUint64(0).toString(16).padStart(16, "0");
      doubles.push([bits, JSON.stringify(number)]);
    }
  }
  return doubles;
}

// --- Values -------------------------------------------------------------------------------------

const VALUES = {
  "astral keys come before U+E000": '{"\\ue000":1,"\\ud83d\\ude00":2,"\\uffff":3,"z":4}',
  "keys that only differ late": '{"aa":1,"a":2,"a\\u0000":3,"a\\ud800\\udc00":4,"a\\uffff":5,"":6}',
  "keys that look like numbers": '{"10":1,"9":2,"-1":3,"1":4,"01":5}',
  "keys with a meaning elsewhere": '{"__proto__":{"a":1},"constructor":2,"toString":3,"length":4}',
  "control characters": JSON.stringify(
    Array.from({ length: 33 }, (_, code) => String.fromCharCode(code)),
  ),
  "NUL in a value and in a key": '{"a\\u0000b":"\\u0000"}',
  "characters that need no escape": '"\\u007f\\u0080\\u00a0\\u2028\\u2029\\ufeff\\ufffd\\/"',
  "escapes spelled in full":
    '"\\u0041\\u00e9\\u0022\\u005c\\u002f\\u0008\\u000c\\u000a\\u000d\\u0009"',
  "astral text": '["\\ud83d\\ude00","\\ud83c\\udff3\\ufe0f\\u200d\\ud83c\\udf08","\\udbff\\udfff"]',
  "white space": ' { "b" : [ 1 , 2 ] , "a" : { } } ',
  "every kind of value": '[null,true,false,0,-0,1.0,1e21,"",[],{},[[]],{"a":{}}]',
  "floats in depth": '{"a":[{"b":[1.5,[2.0,{"c":-0.0}]]}]}',
};

// --- A thread of three batches ------------------------------------------------------------------

const digestOf = (name) => sha256(name);

function record(number, payload, more) {
  return {
    schemaVersion: 1,
    recordId: "record-" + number,
    payload,
    family: "thread",
    deploymentId: "deployment-1",
    createdAt: "2030-01-02T03:04:05." + String(677 + number) + "Z",
    ...more,
  };
}

function thread() {
  const bytes = (records) =>
    records.reduce((sum, each) => sum + Buffer.byteLength(canonical(each)), 0);
  const reference = (each) => ({ recordId: each.recordId, digest: sha256(canonical(each)) });

  const created = record(1, {
    _tag: "ThreadCreated",
    agentId: "agent-1",
    definitions: { agent: digestOf("agent"), model: digestOf("model"), tools: digestOf("tools") },
  });
  const input = record(2, {
    _tag: "UserInputRecorded",
    submissionId: "submission-1",
    kind: "user",
    runId: "run:submission-1",
    input: {
      "\ue000": 0.1, "\u{1f600}": 1e21, "\ufffe": -0, zero: "\u0000",
      numbers: [1e16, 5e-324, 1.5, 2 ** 53],
    },
  });
  const started = record(3, {
    _tag: "RunStarted",
    runId: "run:submission-1",
    policyAccountingVersion: 1,
    maxDurationMillis: 600000,
  }, { fromTheFuture: { "\u{1f600}": [1.5] } });
  const response = record(4, {
    _tag: "ModelResponseRecorded",
    runId: "run:submission-1",
    turnId: "turn-1",
    turn: 1,
    messages: {
      content: [
        { role: "user", content: "What is \u2028 between \u0007 and \u{1f600}?", later: 0.25 },
        {
          role: "assistant",
          content: [{
            type: "tool-call", id: "call-1", name: "look-up", providerExecuted: false,
            params: { ratio: 0.30000000000000004, large: 1e21 },
          }],
        },
      ],
    },
    messagesDigest: digestOf("messages"),
    toolResultMaxBytes: 65536,
    toolSelectionMaxBytes: 0,
    toolOperations: [{
      toolCallId: "call-1", toolName: "look-up", executionClass: "readonly",
      executionKind: "ordinary", replay: digestOf("look-up"), addedLater: null,
    }],
    unknownMember: [1e-7],
  });
  const settled = record(5, {
    _tag: "ToolCallSettled",
    runId: "run:submission-1",
    toolCallId: "call-1",
    toolName: "look-up",
    result: { text: "\"\\/\b\f\n\r\t\u001f\u007f", value: 123456789012345680000 },
    isFailure: false,
  });
  const continuation = record(6, {
    _tag: "RunContinuation",
    version: 1,
    runId: "run:submission-1",
    submissionId: "submission-1",
    revision: 1,
    recordCount: 4,
    recordBytes: bytes([input, started, response, settled]),
    turn: 1,
    turnBytes: bytes([response, settled]),
    terminalBytes: 0,
    terminalRecords: 0,
    terminalUsageBytes: 0,
    originalInput: reference(input),
    latestResponse: reference(response),
    lastFact: reference(settled),
    position: "awaiting-model",
    accounting: {
      programmaticToolCalls: 0, modelRestarts: 0, modelCalls: 1, unobservedModelCalls: 0,
      inputTokens: 120, outputTokens: 7, lastInputTokens: 120, lastOutputTokens: 7,
      costMicrousd: 42, accountedToolTurn: 1, finalizationUsed: false,
    },
  });

  let tail = EMPTY_TAIL;
  return [[created, input], [started, response], [settled, continuation]].map((records, index) => {
    const batch = { producerId: "producer-1", batchId: "batch \u{1f600} " + (index + 1), records };
    tail = sha256(canonical({ previousTailDigest: tail, batch }));
    return {
      batchId: batch.batchId,
      producerId: batch.producerId,
      records: records.map((each) => ({
        json: JSON.stringify(each),
        canonical: canonical(each),
        sha256: sha256(canonical(each)),
      })),
      contentDigest: sha256("yielded/batch-content@1\n" + canonical(batch)),
      tailDigest: tail,
    };
  });
}

function vectors() {
  return {
    numbers: NUMBERS.map((text) => ({ json: text, canonical: canonical(JSON.parse(text)) })),
    integers: INTEGERS.map((text) => ({ json: text, exact: isExact(text) })),
    doubles: someDoubles(256),
    values: Object.entries(VALUES).map(([name, json]) => {
      const text = canonical(JSON.parse(json));
      return { name, json, canonical: text, sha256: sha256(text) };
    }),
    thread: thread(),
  };
}

// Escaped to ASCII, so that no tool between here and there can change a character.
function write(value) {
  const ascii = JSON.stringify(value, null, 1).replace(
    /[\u007f-\uffff]/g,
    (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"),
  );
  process.stdout.write(ascii + "\n");
}

module.exports = { EMPTY_TAIL, canonical, sha256, thread, write };

if (require.main === module) {
  write(vectors());
}
