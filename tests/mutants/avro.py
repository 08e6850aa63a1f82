"""Mutants of Avro resolution: what Java's reader would read otherwise, and what would have no bound."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

AVRO: tuple[Mutant, ...] = (
    Mutant(
        name="names-before-aliases",
        claim="I2",
        definition="Pairing._fields",
        old="{self.renaming.field(old.name, each.name): number",
        new="{each.name: number",
        tests=("test_an_alias_renames_what_was_written",),
    ),
    Mutant(
        name="alias-of-another-record-passes",
        claim="I2",
        definition="_Comparison._lost",
        old="        if self.pairing.renaming.type(old.name) == new.name:\n",
        new="        if True:\n",
        tests=("test_an_alias_that_is_not_clear_or_would_lose_a_value_is_refused",),
    ),
    Mutant(
        name="aliases-of-aliases-pass",
        claim="I2",
        definition="find_renaming",
        old="*_renamed_twice(aliases, writer, renaming)",
        new="",
        tests=("test_an_alias_that_is_not_clear_or_would_lose_a_value_is_refused",),
    ),
    Mutant(
        name="long-rounded-twice",
        claim="I2",
        definition="pack_number",
        old="        value = shortened(value)\n",
        new="        value = float(value)\n",
        tests=("test_a_long_is_rounded_to_a_float_once",),
    ),
    Mutant(
        name="empty-items-counted-by-block",
        claim="I2",
        definition="Cursor.block",
        old="            self.empty += count\n",
        new="            self.empty = count\n",
        tests=("test_every_path_has_the_same_bound_of_items_without_bytes",),
    ),
)
