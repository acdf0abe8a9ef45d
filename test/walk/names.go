package walk

import "go/ast"

// Name is a function's name: Name, or Type.Name of a method.
func Name(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	if ident, ok := typ.(*ast.Ident); ok {
		return ident.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
