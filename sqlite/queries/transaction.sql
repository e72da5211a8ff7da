-- name: begin
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: savepoint
SAVEPOINT {call};

-- name: release
RELEASE {call};

-- name: rollback-to
ROLLBACK TO {call};

-- name: busy-timeout
PRAGMA busy_timeout;
