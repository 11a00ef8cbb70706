package aws_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

// gathered returns all series of a registry, with labels sorted by name: "name{a=b,c=d}". For a histogram it returns the number of
// observations.
func gathered(t testing.TB, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			slices.Sort(labels)
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if f.GetType() == dto.MetricType_HISTOGRAM {
				value = float64(m.GetHistogram().GetSampleCount())
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return out
}

func TestMetricsSayWhatTheProviderDid(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *aws.Config) { c.Registry, c.InterruptionQueue = registry, "interruptions" })
	queue := w.account.NewQueue("interruptions")
	c := w.resolved("general", nil)
	w.account.Limit(awstest.Offering{InstanceType: "m5.large", CapacityType: "on-demand"}, 0, "")
	onDemand := in(v1.CapacityTypeLabelKey, "on-demand")
	m := w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge"), onDemand), c)
	w.account.Send(queue, "garbage", "", about("Something New", "i-1"), about("EC2 Instance Rebalance Recommendation", "i-1"))
	for _, n := range w.notices() {
		w.must(w.acknowledge(n))
	}
	w.account.SetAilments(awstest.Ailment{ID: "i-1", System: true, Since: w.clock.Now().Add(-time.Hour)})
	for range 3 {
		w.clock.Step(2 * time.Minute)
		w.notices()
	}
	w.account.Fail("ec2:TerminateInstances", awstest.Fault{Status: 500, Code: "InternalError", Times: 3})
	if err := w.provider.Terminate(t.Context(), m.ID); err == nil {
		t.Error("a machine was stopped by an error")
	}
	got := gathered(t, registry)
	zone := m.Labels[corev1.LabelTopologyZone]
	for series, want := range map[string]float64{
		"karpenter_cloudprovider_instance_termination_failures_total{zone=" + zone + ",zone_id=" + m.Labels[awsv1.ZoneIDLabelKey] + "}": 1,
		"karpenter_cloudprovider_batcher_batch_size{batcher=create_fleet}":                                                              1,
		"karpenter_cloudprovider_batcher_batch_time_seconds{batcher=terminate_instances}":                                               1,
		"karpenter_interruption_received_messages_total{message_type=malformed}":                                                        1,
		"karpenter_interruption_received_messages_total{message_type=no_op}":                                                            2,
		"karpenter_interruption_received_messages_total{message_type=rebalance_recommendation}":                                         1,
		"karpenter_interruption_deleted_messages_total{}":                                                                               4,
		"karpenter_interruption_message_queue_duration_seconds{}":                                                                       2,
		"karpenter_interruption_instance_status_unhealthy_total{category=SystemStatus}":                                                 1,
		"karpenter_cloudprovider_instance_type_cpu_cores{instance_type=m5.large}":                                                       2,
		"karpenter_cloudprovider_instance_type_memory_bytes{instance_type=m5.large}":                                                    8 << 30,
		"karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type=on-demand,instance_type=m5.large,zone=us-west-2a}": 0.096,
		"karpenter_cloudprovider_instance_type_offering_available{capacity_type=reserved,instance_type=m5.large,zone=us-west-2a}":       0,
		"aws_sdk_go_request_total{action=TerminateInstances,service=EC2,status_code=500}":                                               1,
		"aws_sdk_go_request_attempt_total{action=TerminateInstances,service=EC2,status_code=500}":                                       3,
		"aws_sdk_go_request_retry_count{action=TerminateInstances,service=EC2}":                                                         1,
		"aws_sdk_go_request_duration_seconds{action=CreateFleet,service=EC2}":                                                           2, // once as a rehearsal
		"aws_sdk_go_request_attempt_duration_seconds{action=CreateFleet,service=EC2}":                                                   2,
		"aws_sdk_go_request_total{action=CreateFleet,service=EC2,status_code=200}":                                                      1,
	} {
		if have, there := got[series]; !there || have != want {
			t.Errorf("%s is %v, want %v", series, have, want)
		}
	}
	refused := 0.0
	for series, value := range got {
		if strings.HasPrefix(series, "karpenter_cloudprovider_instance_launch_failures_total{capacity_type=on-demand,reason=LaunchFailed,zone=us-west-2") {
			refused += value
		}
	}
	if refused != 3 || got["karpenter_ec2nodeclasses_userdata_bytes{nodeclass=general}"] < 500 {
		t.Errorf("%v refusals, want one for each zone; user data has %v bytes", refused, got["karpenter_ec2nodeclasses_userdata_bytes{nodeclass=general}"])
	}
}

// The number of series does not grow with classes.
func TestSeriesOfOfferingsAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *aws.Config) { c.Registry, c.DisableDryRun = registry, true })
	count := func() (n int) {
		for series := range gathered(t, registry) {
			if strings.Contains(series, "instance_type") {
				n++
			}
		}
		return n
	}
	types := len(w.catalog(w.resolved("general", nil)))
	one := count()
	if most := types * (2 + 2*3*3); one == 0 || one > most { // cores and memory; two of each of three capacity types in three zones
		t.Errorf("%d series for %d types", one, types)
	}
	for _, name := range []string{"a", "b", "c"} {
		w.catalog(w.resolved(name, func(c *awsv1.EC2NodeClass) {
			c.Spec.Kubelet = kubeletOf(`{"maxPods":1` + string('0'+name[0]-'a') + `}`)
		}))
	}
	if four := count(); four != one {
		t.Errorf("%d series with one class, %d with four", one, four)
	}
	w.clock.Step(time.Hour)
	if left := count(); left != 0 {
		t.Errorf("%d series of catalogs that nobody has asked for in an hour", left)
	}
}

func TestEventsAreToldWhereTheyMatter(t *testing.T) {
	t.Parallel()
	var told []string
	w := newWorld(t, func(c *aws.Config) {
		c.EnableZonalShift = true
		c.Tell = func(e provider.Event) {
			kind := "Normal"
			if e.Warning {
				kind = "Warning"
			}
			told = append(told, kind+" "+e.Reason+" "+e.Object.GetName()+": "+e.Message)
		}
	})
	want := func(parts ...[]string) {
		t.Helper()
		if len(told) != len(parts) {
			t.Errorf("told %q, want %d events", told, len(parts))
			return
		}
		for i, part := range parts {
			for _, text := range part {
				if !strings.Contains(told[i], text) {
					t.Errorf("%q does not say %q", told[i], text)
				}
			}
		}
		told = nil
	}
	c := w.resolved("general", nil)
	w.must(w.client.Status().Update(t.Context(), c))
	w.pool("a", "general")
	w.pool("b", "general", in(corev1.LabelTopologyZone, "us-west-2b"))
	w.pool("elsewhere", "another")
	zone := ""
	for _, s := range c.Status.Subnets {
		if s.Zone == "us-west-2a" {
			zone = s.ZoneID
		}
	}
	w.catalog(c)
	w.account.SetZonalShifts(map[string]time.Time{zone: w.clock.Now().Add(time.Hour)})
	w.notices()
	want([]string{"Warning ZonalShiftActive a: ", "us-west-2a", zone})
	w.clock.Step(time.Minute)
	w.notices()
	want()
	w.account.SetZonalShifts(nil)
	w.clock.Step(time.Minute)
	w.notices()
	want([]string{"Normal ZonalShiftCleared a: ", "us-west-2a"})

	w.account.Limit(awstest.Offering{CapacityType: "spot"}, 0, "AuthFailure.ServiceLinkedRoleCreationNotPermitted")
	claim := w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large"))
	if m := w.launch(claim, c); m.Labels[v1.CapacityTypeLabelKey] != "on-demand" {
		t.Errorf("labels %v", m.Labels)
	}
	want([]string{"Warning SpotSLRCreationFailed a: ", "create-service-linked-role"})

	w.clean()
	stored := &awsv1.EC2NodeClass{}
	w.must(w.client.Get(t.Context(), nameOf("general"), stored))
	w.must(w.client.Delete(t.Context(), stored))
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		w.claim(name, c)
	}
	w.clean()
	want([]string{"Normal WaitingOnNodeClaimTermination general: ", "a, b, c, d, e and 1 more"})
}
