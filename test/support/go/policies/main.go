// Command policies evaluates the admission policies of the chart with the code of the Kubernetes
// API server: it reads policies and requests as JSON from standard input, and writes the patched
// pods and the refusals to standard output.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

type input struct {
	// Version of Kubernetes whose CEL libraries the guard may use.
	GuardVersion string                                   `json:"guardVersion"`
	Mutating     []registration.MutatingAdmissionPolicy   `json:"mutating"`
	Validating   []registration.ValidatingAdmissionPolicy `json:"validating"`
	Requests     []request                                `json:"requests"`
}

type request struct {
	Operation       admission.Operation `json:"operation"`
	Subresource     string              `json:"subresource"`
	NamespaceLabels map[string]string   `json:"namespaceLabels"`
	Object          json.RawMessage     `json:"object"`
	OldObject       json.RawMessage     `json:"oldObject"`
}

type result struct {
	// The object after the mutating policies.
	Object   runtime.Object `json:"object"`
	Refusals []string       `json:"refusals"`
	Errors   []string       `json:"errors"`
}

var (
	scheme = runtime.NewScheme()
	pods   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	guardVersion, err := version.Parse(in.GuardVersion)
	if err != nil {
		return err
	}
	var mutators []mutator
	for _, policy := range in.Mutating {
		compiled, err := compileMutating(policy)
		if err != nil {
			return fmt.Errorf("%s: %w", policy.Name, err)
		}
		mutators = append(mutators, compiled)
	}
	var guards []guard
	for _, policy := range in.Validating {
		compiled, err := compileValidating(policy, guardVersion)
		if err != nil {
			return fmt.Errorf("%s: %w", policy.Name, err)
		}
		guards = append(guards, compiled)
	}
	results := make([]result, 0, len(in.Requests))
	for _, one := range in.Requests {
		outcome, err := evaluate(one, mutators, guards)
		if err != nil {
			return err
		}
		results = append(results, outcome)
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

func evaluate(one request, mutators []mutator, guards []guard) (result, error) {
	ctx := context.Background()
	object, err := decode(one.Object, one.Operation)
	if err != nil {
		return result{}, err
	}
	old, err := decode(one.OldObject, one.Operation)
	if err != nil {
		return result{}, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "agents", Labels: one.NamespaceLabels}}
	out := result{Refusals: []string{}, Errors: []string{}}
	for _, policy := range mutators {
		if !policy.matches(one) {
			continue
		}
		if object, err = policy.apply(ctx, one, object, namespace); err != nil {
			out.Errors = append(out.Errors, err.Error())
		}
	}
	for _, policy := range guards {
		if !policy.matches(one) {
			continue
		}
		attributes := attributesOf(one, object, old)
		decided := policy.validator.Validate(ctx, pods, attributes, nil, namespace, celconfig.RuntimeCELCostBudget, nil)
		for _, decision := range decided.Decisions {
			switch {
			case decision.Evaluation == validating.EvalError:
				out.Errors = append(out.Errors, decision.Message)
			case decision.Action == validating.ActionDeny:
				out.Refusals = append(out.Refusals, decision.Message)
			}
		}
	}
	out.Object = object
	return out, nil
}

func decode(raw json.RawMessage, operation admission.Operation) (runtime.Object, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if operation == admission.Connect {
		options := &corev1.PodExecOptions{}
		return options, json.Unmarshal(raw, options)
	}
	pod := &corev1.Pod{}
	err := json.Unmarshal(raw, pod)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return pod, err
}

func attributesOf(one request, object, old runtime.Object) *admission.VersionedAttributes {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	attributes := admission.NewAttributesRecord(object, old, kind, "agents", "pod", pods, one.Subresource,
		one.Operation, nil, false, &user.DefaultInfo{Name: "somebody"})
	return &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: kind, VersionedObject: object, VersionedOldObject: old,
	}
}

type constraints struct {
	rules []registration.NamedRuleWithOperations
}

func (c constraints) matches(one request) bool {
	resource := "pods"
	if one.Subresource != "" {
		resource += "/" + one.Subresource
	}
	return slices.ContainsFunc(c.rules, func(rule registration.NamedRuleWithOperations) bool {
		return slices.Contains(rule.Resources, resource) &&
			slices.Contains(rule.Operations, registration.OperationType(one.Operation))
	})
}

type mutator struct {
	constraints
	compiler *plugincel.CompositedCompiler
	matcher  matchconditions.Matcher
	patchers []patch.Patcher
}

func compileMutating(policy registration.MutatingAdmissionPolicy) (mutator, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	compiler, err := plugincel.NewCompositedCompiler(base)
	if err != nil {
		return mutator{}, err
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	if err := storeVariables(compiler, policy.Spec.Variables, options, environment.StoredExpressions); err != nil {
		return mutator{}, err
	}
	matcher, err := compileMatcher(compiler, policy.Spec.MatchConditions, options, environment.StoredExpressions)
	if err != nil {
		return mutator{}, err
	}
	compiled := mutator{constraints{policy.Spec.MatchConstraints.ResourceRules}, compiler, matcher, nil}
	options.HasPatchTypes = true
	for _, mutation := range policy.Spec.Mutations {
		condition := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
		evaluator := compiler.CompileMutatingEvaluator(condition, options, environment.StoredExpressions)
		if err := errors.Join(evaluator.CompilationErrors()...); err != nil {
			return mutator{}, err
		}
		compiled.patchers = append(compiled.patchers, patch.NewJSONPatcher(evaluator))
	}
	return compiled, nil
}

func (m mutator) apply(ctx context.Context, one request, object runtime.Object, namespace *corev1.Namespace) (runtime.Object, error) {
	for _, patcher := range m.patchers {
		attributes := attributesOf(one, object, nil)
		if m.matcher != nil {
			matched := m.matcher.Match(ctx, attributes, nil, nil)
			if matched.Error != nil {
				return object, matched.Error
			}
			if !matched.Matches {
				return object, nil
			}
		}
		patched, err := patcher.Patch(m.compiler.CreateContext(ctx), patch.Request{
			MatchedResource:     pods,
			VersionedAttributes: attributes,
			ObjectInterfaces:    admission.NewObjectInterfacesFromScheme(scheme),
			Namespace:           namespace,
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return object, err
		}
		object = patched
	}
	return object, nil
}

type guard struct {
	constraints
	validator validating.Validator
}

// compileValidating compiles a policy as the API server of the given version does when it is
// created, so that libraries of later versions are refused.
func compileValidating(policy registration.ValidatingAdmissionPolicy, kubernetes *version.Version) (guard, error) {
	mode := environment.NewExpressions
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(kubernetes))
	if err != nil {
		return guard{}, err
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	messageOptions := plugincel.OptionalVariableDeclarations{}
	if err := storeVariables(compiler, policy.Spec.Variables, options, mode); err != nil {
		return guard{}, err
	}
	matcher, err := compileMatcher(compiler, policy.Spec.MatchConditions, options, mode)
	if err != nil {
		return guard{}, err
	}
	var validations, messages []plugincel.ExpressionAccessor
	for _, validation := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{
			Expression: validation.Expression, Message: validation.Message, Reason: validation.Reason,
		})
		var message plugincel.ExpressionAccessor
		if validation.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: validation.MessageExpression}
		}
		messages = append(messages, message)
	}
	for _, accessor := range append(slices.Clone(validations), messages...) {
		if accessor == nil {
			continue
		}
		if compiled := compiler.CompileCELExpression(accessor, options, mode); compiled.Error != nil {
			return guard{}, fmt.Errorf("%s: %w", accessor.GetExpression(), compiled.Error)
		}
	}
	fail := registration.Fail
	return guard{constraints{policy.Spec.MatchConstraints.ResourceRules}, validating.NewValidator(
		compiler.CompileCondition(validations, options, mode), matcher,
		compiler.CompileCondition(nil, options, mode),
		compiler.CompileCondition(messages, messageOptions, mode), &fail, nil,
	)}, nil
}

func storeVariables(compiler *plugincel.CompositedCompiler, variables []registration.Variable,
	options plugincel.OptionalVariableDeclarations, mode environment.Type) error {
	for _, variable := range variables {
		named := &validating.Variable{Name: variable.Name, Expression: variable.Expression}
		if compiled := compiler.CompileAndStoreVariable(named, options, mode); compiled.Error != nil {
			return fmt.Errorf("variable %s: %w", variable.Name, compiled.Error)
		}
	}
	return nil
}

func compileMatcher(compiler *plugincel.CompositedCompiler, conditions []registration.MatchCondition,
	options plugincel.OptionalVariableDeclarations, mode environment.Type) (matchconditions.Matcher, error) {
	if len(conditions) == 0 {
		return nil, nil
	}
	accessors := make([]plugincel.ExpressionAccessor, len(conditions))
	for index := range conditions {
		condition := matchconditions.MatchCondition(conditions[index])
		accessors[index] = &condition
		if compiled := compiler.CompileCELExpression(&condition, options, mode); compiled.Error != nil {
			return nil, fmt.Errorf("match condition %s: %w", condition.Name, compiled.Error)
		}
	}
	fail := registration.Fail
	evaluator := compiler.CompileCondition(accessors, options, mode)
	return matchconditions.NewMatcher(evaluator, &fail, "policy", "validate", "policy"), nil
}
