package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// parseNode reads the value of -node and gives the node and the cluster that it is meant for, "" for all.
func parseNode(text string) (node fleettest.NodeSpec, cluster string, err error) {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok {
			return node, "", fmt.Errorf("%q is no KEY=VALUE", pair)
		}
		switch key {
		case "name":
			node.Name = value
		case "cluster":
			cluster = value
		case "arch":
			node.Architecture = value
		case "cpu":
			node.CPU = value
		case "memory":
			node.Memory = value
		case "pods":
			node.Pods = value
		case "runtime":
			node.Runtime = value
		case "label":
			err = put(&node.Labels, value)
		case "extended":
			err = put(&node.Extended, value)
		case "taint":
			var taint corev1.Taint
			taint, err = parseTaint(value)
			node.Taints = append(node.Taints, taint)
		case "unschedulable":
			node.Unschedulable, err = strconv.ParseBool(value)
		default:
			err = errors.New("unknown key; known are name, cluster, arch, cpu, memory, pods, label, taint, extended, runtime and unschedulable")
		}
		if err != nil {
			return node, "", fmt.Errorf("%s: %w", key, err)
		}
	}
	if node.Name == "" {
		return node, "", errors.New("the node has no name: add name=…")
	}
	return node, cluster, nil
}

func put(into *map[string]string, pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok {
		return fmt.Errorf("%q is no NAME=VALUE", pair)
	}
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)[key] = value
	return nil
}

// parseTaint reads KEY[=VALUE]:EFFECT, as kubectl does.
func parseTaint(text string) (corev1.Taint, error) {
	pair, effect, ok := strings.Cut(text, ":")
	switch corev1.TaintEffect(effect) {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		ok = false
	}
	if !ok {
		return corev1.Taint{}, fmt.Errorf("%q: want KEY=VALUE:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute", text)
	}
	key, value, _ := strings.Cut(pair, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}, nil
}
