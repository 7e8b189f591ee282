"""Pure rules of accepted work: the state machine, ownership, and the recovery classifier."""
