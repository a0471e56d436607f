"""The paper's tables and figures, and our own: measured cell by cell, stored, and compared with what is published."""
