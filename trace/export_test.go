package trace

// ReadAtMost is Read with another limit than MostPods.
var ReadAtMost = readAtMost
