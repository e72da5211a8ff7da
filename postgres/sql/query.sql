SELECT e.sequence, e.ts, e.partition, e.id, e.key, e.type, e.metadata, e.payload FROM {events} e
