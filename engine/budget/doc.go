// Package budget computes how much may be disrupted now. It reads the budgets of NodePools with their schedules, the annotations of pools that limit
// the times and the number of moves, and the PodDisruptionBudgets of pods. It counts the pods of one owner that consolidation may move in an hour.
package budget
