"""Figures and pictures as one self-contained page, and methods side by side."""
