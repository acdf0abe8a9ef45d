package admin_test

import (
	"context"
	"fmt"

	"turnstile/pkg/admin"
	"turnstile/test/demo"
)

func ExampleClient_ApplyTenants() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	demo.Check(operator.ApplyTenants(ctx, []byte(`{"tenants": {"acme": {"sessions": ["acme:*"], "weight": 3}}}`)))
	fmt.Println(operator.ApplyTenants(ctx, []byte(`{"tenants": {"acme": {"sessions": ["acme:*"], "weight": 0}}}`)))
	// Output:
	// invalid tenants: tenant "acme": weight is 0: from 1 to 1000 are allowed
}

func ExampleClient_Limits() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	demo.Check(operator.ApplyTenants(ctx, []byte(`{"tenants": {"*": {"running": 2}}, "agents": {"support": {"running": 5}}}`)))
	limits, there, err := operator.Limits(ctx)
	demo.Check(err)
	for _, l := range limits {
		fmt.Println(there, l.Kind, l.Name, l.Running, "of", l.Cap)
	}
	// Output:
	// true agent support 0 of 5
	// true tenant * 0 of 2
}

func ExampleClient_RemoveTenants() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	demo.Check(operator.ApplyTenants(ctx, []byte(`{"tenants": {}}`)))
	demo.Check(operator.RemoveTenants(ctx))
	_, there, err := operator.Limits(ctx)
	fmt.Println(there, err)
	// Output:
	// false <nil>
}
