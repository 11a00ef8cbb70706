package aws

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/userdata"
)

// muchUserData is a size of user data that is close to the limit.
const muchUserData = userdata.Limit * 9 / 10

// noteUserData warns of user data that is close to EC2's limit, because it grows with the labels and taints of NodePools. The warning comes
// once an hour for every generation of a class.
func (p *Provider) noteUserData(ctx context.Context, c *awsv1.EC2NodeClass, bytes int) {
	if bytes < muchUserData {
		return
	}
	key := fmt.Sprintf("%s/%d", c.Name, c.Generation)
	if _, said := p.nearlyFull.Peek(key); said {
		return
	}
	p.nearlyFull.Put(key, struct{}{})
	log.FromContext(ctx).Info("user data is nearly as large as EC2 takes: have machines load a part of it from elsewhere",
		"EC2NodeClass", c.Name, "bytes", bytes, "limit", userdata.Limit)
}

// The versions of Kubernetes, all 1.x, whose images and nodes are known to work.
const oldestMinor, newestMinor = 26, 36

// noteVersion warns once of a version of Kubernetes outside this range. The version may still work.
func (c *Cluster) noteVersion(ctx context.Context, version string) {
	c.mu.Lock()
	known := c.noted == version
	c.noted = version
	c.mu.Unlock()
	major, minor := 0, 0
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); known || err == nil && n == 2 && major == 1 && minor >= oldestMinor && minor <= newestMinor {
		return
	}
	log.FromContext(ctx).Error(fmt.Errorf("cluster %s runs Kubernetes %s, which is not among the versions 1.%d to 1.%d", c.Name, version, oldestMinor, newestMinor),
		"this version of Kubernetes is not supported: nodes may not join")
}
