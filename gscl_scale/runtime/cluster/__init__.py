"""Tasks and trainings on a Ray cluster; ray is imported nowhere else, and only when it is asked for."""
