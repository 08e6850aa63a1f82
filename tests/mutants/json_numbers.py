"""Mutants of JSON: what nobody touched would be written again in another form."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

JSON_NUMBERS: tuple[Mutant, ...] = (
    Mutant(
        name="number-written-as-its-double",
        claim="I2",
        definition="_float",
        old="    return WrittenFloat(text)\n",
        new="    return number\n",
        tests=("test_a_number_keeps_its_text_through_a_function_copies_and_pickles",),
    ),
    Mutant(
        name="json-written-again-without-a-function",
        claim="I2",
        definition="resolving",
        old="is_only_checked=True",
        new="is_only_checked=False",
        tests=("test_json_keys_and_values_stay_byte_for_byte_without_a_function",),
    ),
)
