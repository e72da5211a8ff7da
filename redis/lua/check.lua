-- Makes sure that what the other scripts need is there.
-- KEYS: none
-- ARGV: none
return {clock('')}
