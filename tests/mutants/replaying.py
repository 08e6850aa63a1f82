"""The mutants of a replay, in which chunks of two functions must not be mixed unproven."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

REPLAYING: tuple[Mutant, ...] = (
    Mutant(
        name="revision-not-in-the-identity",
        claim="I5",
        definition="Standing.identity",
        old="revised(self.plan.identity, self.revision)",
        new="revised(self.plan.identity, None)",
        tests=("test_an_interrupted_replay_is_resumed[conversion.revised-run]",),
    ),
    Mutant(
        name="superseded-chunks-count",
        claim="I2",
        definition="Standing._valid",
        old=" and each.attempt not in void]",
        new="]",
        tests=("test_only_chunks_with_rejects_are_rewritten",),
    ),
    Mutant(
        name="chunks-of-a-lost-revision-count",
        claim="I2",
        definition="Standing._valid",
        old="if each.revision in known and ",
        new="if known and ",
        tests=("test_a_receipt_of_a_revision_whose_row_is_lost_does_not_count",),
    ),
    Mutant(
        name="superseded-chunks-adopted",
        claim="I2",
        definition="_uncommitted",
        old="        if receipt.revision != standing.revision_id:\n",
        new="        if not receipt.attempt:\n",
        tests=("test_a_receipt_of_a_function_that_was_replaced_is_not_adopted",),
    ),
    Mutant(
        name="stores-of-the-replaced-function-used",
        claim="I2",
        definition="assembled_by",
        old='if each[1].get("revision", FIRST) == revision]',
        new="if each]",
        tests=("test_only_chunks_with_rejects_are_rewritten",),
    ),
    Mutant(
        name="digest-suffices-after-a-replay",
        claim="I9",
        definition="Standing.is_verified",
        old="        return self.revision is None or ",
        new="        return self.revision is not None or ",
        tests=("test_nothing_but_a_full_verification_opens_the_gate_after_a_replay",),
    ),
    Mutant(
        name="replay-verified-as-the-spec-says",
        claim="I9",
        definition="verify",
        old='mode = "full" if is_revised else context.spec.run.verify',
        new="mode = context.spec.run.verify",
        tests=("test_only_chunks_with_rejects_are_rewritten",),
    ),
    Mutant(
        name="replayed-into-stores-in-use",
        claim="I8",
        definition="_revision",
        old="    _check_not_live(context.spec, standing)\n",
        new="",
        tests=("test_it_is_refused_once_published",),
    ),
)
