"""Who is how far: priorities, ring samples, ring statistics; arrays in, arrays out."""
