"""What every test shares: how Hypothesis draws, and where a warning may come from."""

import os

from hypothesis import settings

# Without the JIT a kernel is a thousand times slower, and CI's machine is shared: no deadline. CI
# draws the same examples on every run, so that a red run is about the change; elsewhere each run
# draws new ones.
settings.register_profile("everywhere", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")
