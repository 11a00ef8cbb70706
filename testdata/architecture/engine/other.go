package engine

func forget() { calls = 0 }
