"""The paper's tables and figures, and our own: measured cell by cell, kept, and set beside what is published."""
