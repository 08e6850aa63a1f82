"""Whatever a processor does, and however often it crashes, it sees what a dict would show."""

from hypothesis import HealthCheck, settings

from tests.dual.machine import StoreMachine

TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
