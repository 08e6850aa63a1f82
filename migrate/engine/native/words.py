"""The integers that the compiled code and Python share: operations, the words of the block, and why the loop stops."""

from __future__ import annotations

(
    COPY, COPY_REST, SKIP, SKIP_REST, INSERT, REVERSE, SPAN, SKIP_SPAN, SKIP_SIZE, INSERT_SIZE, ENTER, LEAVE, CHOOSE,
    NUMBER, TEXT, BOOLEAN, PROMOTE, PROMOTE_FLOAT, REFUSE, CALL, RETURN, DROP, DROPPED, CHOICE, KEPT_CHOICE,
    REPEAT, BLOCK, ITEM, PART, ARRANGE, JUMP, END,
) = range(32)  # fmt: skip
"""The operations; `byte_code` says which words follow each."""
REJECTED = -1
"""The record does not fit the program, or needs what only the portable engine does."""
FULL = -2
"""The converted record needs more room."""
(
    SOURCE, TARGET, WRITER, VALID, NEXT, KEY, VALUE, PUT,
    KEY_PROGRAM, VALUE_PROGRAM, STACK, STACK_TOP, SET_ASIDE,
    KEY_ROOM, KEY_ROOM_SIZE, VALUE_ROOM, VALUE_ROOM_SIZE, LAST_KEY, LAST_KEY_ROOM,
    SCANNED, WRITTEN_SIZES, WRITTEN_KEYS, WRITTEN_VALUES,
    MOST_RECORDS, MOST_BYTES, TURN, HAS_BEGUN,
    READ, READ_SIZE, DONE, DONE_SIZE,
    LAST_KEY_SIZE, KEY_SIZE, VALUE_SIZE, TARGET_SIZE, ERROR, NEW_KEY, NEW_KEY_SIZE, NEW_VALUE, NEW_VALUE_SIZE,
    KEY_ENDS, VALUE_ENDS, WORDS,
) = range(43)  # fmt: skip
"""The words of the block. Addresses, some of them 0: that is not there. `native` says what each is for."""
CONVERT, LEAVE_OUT, TAKE = range(3)
"""What becomes of the next record (TURN); TAKE: the new one is at NEW_KEY and NEW_VALUE."""
ENDED, PAUSED, BEGINS, JUDGE, KEY_FULL, VALUE_FULL, LAST_FULL, FAILED, DIFFERS = range(9)
"""Why the loop returns. But for ENDED and PAUSED it is at a record of which nothing was written or counted."""
