package recovery

var DueInSweep = dueInSweep
