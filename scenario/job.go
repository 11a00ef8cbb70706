package scenario

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// jobPods returns the number of a Job's pods that run at the same time from now on: its parallelism, but not more than the completions that
// are left.
func jobPods(job *batchv1.Job, now time.Time) int {
	if ptr.Deref(job.Spec.Suspend, false) || jobIsOver(job, now) {
		return 0
	}
	n, status := int(ptr.Deref(job.Spec.Parallelism, 1)), &job.Status
	if job.Spec.Completions == nil {
		if status.Succeeded > 0 { // the first success completes the Job
			return 0
		}
		return n
	}
	done := int(status.Succeeded)
	if u := status.UncountedTerminatedPods; u != nil {
		done += len(u.Succeeded)
	}
	if ptr.Deref(job.Spec.CompletionMode, "") == batchv1.IndexedCompletion {
		done = max(done, indexes(status.CompletedIndexes)) + indexes(ptr.Deref(status.FailedIndexes, ""))
	}
	return max(0, min(n, int(*job.Spec.Completions)-done))
}

// jobIsOver reports whether a Job makes no more pods. Its controller may not have written the condition yet.
func jobIsOver(job *batchv1.Job, now time.Time) bool {
	spec, status := &job.Spec, &job.Status
	ended := slices.ContainsFunc(status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && c.Type != batchv1.JobSuspended
	})
	limit := ptr.Deref(spec.BackoffLimit, 6)
	if spec.BackoffLimitPerIndex != nil {
		limit = ptr.Deref(spec.BackoffLimit, math.MaxInt32)
	}
	late := spec.ActiveDeadlineSeconds != nil && status.StartTime != nil &&
		!now.Before(status.StartTime.Add(time.Duration(*spec.ActiveDeadlineSeconds)*time.Second))
	return ended || status.CompletionTime != nil || status.Failed > limit || late
}

// indexes returns the number of indexes in a list such as 1,3-5.
func indexes(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if ranged && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err == nil {
			n += max(0, to-from+1)
		}
	}
	return n
}
