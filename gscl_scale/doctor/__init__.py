"""What is missing on this machine for the work that is configured, and the cure."""

from gscl_scale.doctor.commands import doctor
from gscl_scale.doctor.finding import Finding

__all__ = ["Finding", "doctor"]
