package scenario_test

import (
	"strings"
	"testing"
	"time"

	"tenon.sh/scenario"
)

func TestACourseSaysHowTheClusterGoesOn(t *testing.T) {
	t.Parallel()
	f, err := scenario.Parse(`cloud bad-day
deployment web x30 cpu=500m day=0:5,8.5:30 weekend=50% noise=0.1 rollout="0 10 * * 1-5" start=20s stop=5s ns=shop labels=tier:front
deployment db x3 stateful cpu=2
cronjob report x10 schedule="*/15 * * * *" runs=7m cpu=1
fault short at=2h for=30m family=m zone=a
`)
	if err != nil {
		t.Fatal(err)
	}
	c := f.Course
	if c.Cloud != "bad-day" || len(c.Workloads) != 3 || len(f.Snapshot.Pods) != 0 {
		t.Fatalf("cloud %q, %d workloads, %d pods", c.Cloud, len(c.Workloads), len(f.Snapshot.Pods))
	}
	web, db, report := c.Workloads[0], c.Workloads[1], c.Workloads[2]
	if web.Kind != scenario.Deployment || web.Pods != 30 || web.Weekend != 0.5 || web.Noise != 0.1 || web.Start != 20*time.Second || web.Stop != 5*time.Second {
		t.Errorf("web is %+v", web)
	}
	if len(web.Day) != 2 || web.Day[1] != (scenario.DayPoint{Hour: 8.5, Pods: 30}) || web.Rollout != "0 10 * * 1-5" {
		t.Errorf("web is %+v", web)
	}
	if p := web.Template; p.Name != "web" || p.Namespace != "shop" || p.Labels["app"] != "web" || p.Labels["tier"] != "front" {
		t.Errorf("pods of web have %+v", p.ObjectMeta)
	}
	if db.Kind != scenario.StatefulSet || report.Kind != scenario.CronJob || report.Runs != 7*time.Minute || report.Schedule != "*/15 * * * *" {
		t.Errorf("db is %+v, report is %+v", db, report)
	}
	want := scenario.Fault{What: "short", At: 2 * time.Hour, For: 30 * time.Minute, Family: "m", Zone: "a"}
	if len(c.Faults) != 1 || c.Faults[0] != want {
		t.Errorf("faults %+v", c.Faults)
	}
}

func TestErrorsOfACourseNameTheWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"deployment web x3 day=8":           "line 1: day=8: write hours of the day",
		"deployment web x3 day=8:2,8:3":     "line 1: day=8:2,8:3: the hours must rise",
		"deployment web x3 day=24:2":        "line 1: day=24:2: write hours of the day",
		"deployment web x3 day=1:-2":        "line 1: day=1:-2: write hours of the day",
		"deployment web x3 weekend=half":    `line 1: weekend=half: "half" is not a share such as 50%`,
		"deployment web x3 start=-1s":       "line 1: start=-1s: this cannot be negative",
		"deployment web x3 node=n1":         "line 1: web: the pods of a deployment have no node= and no owner=",
		"deployment web x3\ndeployment web": "line 2: web: there is a workload of this name already",
		"deployment web x300000":            "line 1: web: 300000 pods are more than can be planned",
		"deployment web day=0:300000":       "line 1: web: 300000 pods are more than can be planned",
		"cronjob report x3":                 "line 1: report: say when it runs",
		"cronjob report colour=red":         "line 1: colour=red: cronjob has no such word",
		"cloud aws-typical seed=1":          "line 1: seed=1: cloud has no such word",
		"fault short colour=red":            "line 1: colour=red: fault has no such word",
		"fault reclaim share=most":          `line 1: share=most: "most" is not a share`,
	} {
		_, err := scenario.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to contain %q", text, err, want)
		}
	}
}
