// Package budget says how much may be disrupted now: the budgets of NodePools with their schedules, the annotations of pools that bound
// when and what is moved, and the PodDisruptionBudgets of pods.
package budget
