"""Find the labels that are probably wrong, say why, and remove what can be removed safely."""

from pmlkit.cleaning.cleaner import LabelCleaner, clean
from pmlkit.cleaning.estimates import Estimate, NoiseRates
from pmlkit.cleaning.result import CleaningResult

__all__ = ["CleaningResult", "Estimate", "LabelCleaner", "NoiseRates", "clean"]
