// Package budget says how much may be disrupted now: the budgets of NodePools with their schedules, the annotations of pools that bound
// when and what is moved, the PodDisruptionBudgets of pods, and how many pods of one owner consolidation may move in an hour.
package budget
