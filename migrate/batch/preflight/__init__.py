"""Every check by name: made by a run, listed by a dry run and by `doctor`."""
