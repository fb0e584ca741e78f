"""`coding_schemes.diagnose`."""

from coding_schemes.diagnosis import diagnose as diagnose
