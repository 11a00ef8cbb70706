package aks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefaultDNSServiceIP is AKS's default address of the cluster's DNS.
const DefaultDNSServiceIP = "10.0.0.10"

// errNoDNS means that the Service does not exist or has no address.
var errNoDNS = errors.New("there is none")

// DNSServiceIP returns the address of the cluster's DNS. If the installation sets the address, it returns this setting. Otherwise, it returns the
// address of Service kube-system/kube-dns. If that Service does not exist or has no address, it returns DefaultDNSServiceIP. A missing Service is
// cached for a few seconds only.
func (c *Cluster) DNSServiceIP(ctx context.Context) (string, error) {
	if c.config.DNSServiceIP != "" {
		return c.config.DNSServiceIP, nil
	}
	ip, err := c.dns.Get(ctx, "", func(ctx context.Context) (string, error) {
		service := &corev1.Service{}
		err := c.config.Reader.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, service)
		if apierrors.IsNotFound(err) {
			return "", errNoDNS
		}
		if err != nil {
			return "", fmt.Errorf("read Service kube-system/kube-dns for the address of the cluster's DNS: %w (DNS_SERVICE_IP tells it without asking)", err)
		}
		if _, err := netip.ParseAddr(service.Spec.ClusterIP); err != nil {
			return "", errNoDNS
		}
		return service.Spec.ClusterIP, nil
	})
	if errors.Is(err, errNoDNS) {
		return DefaultDNSServiceIP, nil
	}
	return ip, err
}
