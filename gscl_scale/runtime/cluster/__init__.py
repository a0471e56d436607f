"""Tasks and trainings on a Ray cluster; ray is imported here and in studies/tune only, when it is needed."""
