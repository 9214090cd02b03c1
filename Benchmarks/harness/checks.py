"""Expectations of a test, with their figures."""


class Checks:
    """Prints PASS or FAIL for each expectation, and counts both."""

    def __init__(self):
        self.failed = 0
        self.count = 0

    def expect(self, statement, is_true, figures=""):
        self.count += 1
        self.failed += not is_true
        print(f"{'PASS' if is_true else 'FAIL'}  {statement}{': ' if figures else ''}{figures}", flush=True)
        return is_true

    @staticmethod
    def note(text):
        print(f"      {text}", flush=True)

    def summary(self):
        return f"{self.count - self.failed} of {self.count} checks passed"

    @property
    def exit_status(self):
        """1 if a check failed or none was made."""
        return 1 if self.failed or not self.count else 0
