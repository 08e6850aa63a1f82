"""Mutants of what makes a user's function the one that it was, and of what it raises."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FUNCTIONS: tuple[Mutant, ...] = (
    Mutant(
        name="imports-not-followed",
        claim="I2",
        definition="module_digests",
        old="            waiting += imported_modules(",
        new="            _ = imported_modules(",
        tests=("test_a_module_far_away_counts_and_one_that_nobody_imports_does_not",),
    ),
    Mutant(
        name="loaded-code-unchecked",
        claim="I2",
        definition="checked_code",
        old="        if expected[path] != digest:\n",
        new="        if expected[path] == '':\n",
        tests=("test_what_changes_while_the_run_goes_on_ends_it[mapping.py]",),
    ),
    Mutant(
        name="unknown-modules-pass",
        claim="I2",
        definition="checked_code",
        old="        if path not in expected:\n",
        new="        if path not in found:\n",
        tests=("test_a_module_imported_by_a_made_up_name_must_be_listed",),
    ),
    Mutant(
        name="sets-in-the-order-of-the-process",
        claim="I5",
        definition="Described._parts",
        old="yield from sorted(map(self.digest, value))",
        new="yield from list(map(self.digest, value))",
        tests=("test_a_function_given_as_an_object_is_known_again_with_the_sets_that_it_brings[file]",),
    ),
    Mutant(
        name="what-functions-raise-escapes",
        claim="I9",
        definition="_call",
        old="    except BaseException as error:\n",
        new="    except Exception as error:\n",
        tests=("test_whatever_a_function_raises_is_a_reject[generator-exit]",),
    ),
    Mutant(
        name="drops-not-bounded",
        claim="I14",
        definition="Spec.most_dropped",
        old="return run.max_dropped if is_bounded else 0",
        new="return run.max_dropped",
        tests=("test_a_forgotten_return_ends_the_run_until_the_spec_allows_it[in-one-branch]",),
    ),
    Mutant(
        name="drops-no-concern",
        claim="I14",
        definition="concerns_of",
        old=", _dropped(spec, totals))",
        new=")",
        tests=("test_what_is_allowed_no_more_does_not_go_live",),
    ),
    Mutant(
        name="former-values-dropped-uncounted",
        claim="I14",
        definition="_with_history",
        old="history=replace(history, versions=tuple(versions))), dropped",
        new="history=replace(history, versions=tuple(versions))), 0",
        tests=("test_a_former_value_that_is_dropped_is_counted",),
    ),
    Mutant(
        name="headers-not-read",
        claim="I14",
        definition="_check_headers",
        old="        for _ in headers:\n            pass\n",
        new="        pass\n",
        tests=("test_headers_that_are_none_are_rejects",),
    ),
    Mutant(
        name="losses-of-functions-are-rejects",
        claim="I14",
        definition="Converter._convert_each",
        old="            except LossError as error:\n"
        '                raise loss_not_allowed(f"column family {self.family!r}", key, error) from error\n',
        new="",
        tests=("test_what_a_function_gives_in_vain_is_refused_until_that_loss_is_allowed",),
    ),
    Mutant(
        name="function-sees-no-time",
        claim="I14",
        definition="Conversion.convert_counting",
        old="        if found.timestamp_ms is None and time_ms is not None:\n",
        new="        if found.timestamp_ms is None and time_ms is not None and self.function is None:\n",
        tests=("test_a_function_sees_the_time_that_the_record_will_have_and_one_that_it_sets_wins",),
    ),
    Mutant(
        name="compiled-keys-unchecked",
        claim="I14",
        definition="Converter._stay_in_partition",
        old="        if self.conversion.elsewhere is None:\n",
        new="        if True:\n",
        tests=("test_a_changed_key_of_another_partition_is_a_reject_and_an_equal_one_is_not[True]",),
    ),
    Mutant(
        name="keys-moved-unchecked",
        claim="I14",
        definition="Conversion.convert_counting",
        old="        self._check_partition(key, converted[0])\n",
        new="",
        tests=("test_a_changed_key_of_another_partition_is_a_reject_and_an_equal_one_is_not[False]",),
    ),
)
