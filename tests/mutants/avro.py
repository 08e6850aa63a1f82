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
        definition="_SchemaComparison._lost",
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
        name="numbers-rounded",
        claim="I2",
        definition="is_exact",
        old="used <= EXACT[kind]",
        new="used <= EXACT[kind] + 1",
        tests=("test_a_number_that_the_wider_type_cannot_hold_exactly_is_a_reject",),
    ),
    Mutant(
        name="fields-left-out-in-silence",
        claim="I2",
        definition="Conversion.losses",
        old='{"fields"} if self.lost_fields else set()',
        new="set()",
        tests=("test_what_is_left_out_is_counted_and_refused",),
    ),
    Mutant(
        name="scale-of-connect-ignored",
        claim="I2",
        definition="_logical",
        old="else of_connect or 0",
        new="else 0",
        tests=("test_what_can_never_be_read_is_refused_with_the_path",),
    ),
    Mutant(
        name="empty-items-counted-by-block",
        claim="I2",
        definition="AvroCursor.block",
        old="            self.empty += count\n",
        new="            self.empty = count\n",
        tests=("test_every_path_has_the_same_bound_of_items_without_bytes",),
    ),
    Mutant(
        name="a-label-that-two-pairs-of-schemas-share",
        claim="I2",
        definition="_label",
        old='name if name.replace(".", "").isidentifier() else json.dumps(name)',
        new="name",
        tests=("test_names_that_look_like_a_pair_of_names_are_kept_apart",),
    ),
    Mutant(
        name="a-compressed-payload-read-as-it-is",
        claim="I2",
        definition="_unpack_glue",
        old="if payload[1]:",
        new="if not payload:",
        tests=("test_a_compressed_payload_of_glue_is_rejected_with_a_sentence",),
    ),
)
