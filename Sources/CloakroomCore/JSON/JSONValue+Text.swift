extension JSONValue {
    /// Selects claims of a user, in their configured order, as a JSON object. A claim within objects stays within them,
    /// without their other members. Absent claims and `null` are left out.
    package func text(selecting claims: [ClaimName]) -> String {
        var names: [JSONMemberName] = []
        var tree: [JSONMemberName: JSONValue] = [:]
        for claim in claims {
            guard let name = claim.path.first, let value = self[claim: claim] else { continue }
            if !names.contains(name) { names.append(name) }
            tree[name, default: .object([:])].set(value, at: claim.path.dropFirst())
        }
        let members = names.map { JSONString.quoted($0.text) + ":" + (tree[$0] ?? .null).text }
        return "{" + members.joined(separator: ",") + "}"
    }

    /// Sets the value that members lead to, and creates the objects around it.
    private mutating func set(_ value: JSONValue, at path: ArraySlice<JSONMemberName>) {
        guard let name = path.first else {
            self = value
            return
        }
        var members: [JSONMemberName: JSONValue] = [:]
        if case .object(let existing) = self { members = existing }
        members[name, default: .object([:])].set(value, at: path.dropFirst())
        self = .object(members)
    }

    /// The value as JSON. Members are in the order of their names, so equal values have equal texts.
    private var text: String {
        switch self {
        case .null: "null"
        case .bool(let flag): flag ? "true" : "false"
        // A number from 2^53 on may be that of the document or its neighbour. It becomes what equals no number and what
        // no claim header can contain.
        case .number(let number):
            JSONValue.exactText(of: number) ?? (number.magnitude < 9_007_199_254_740_992 ? "\(number)" : "{}")
        case .string(let text): JSONString.quoted(text)
        case .array(let items): "[" + items.map(\.text).joined(separator: ",") + "]"
        case .object(let members):
            "{"
                + members.map { (JSONString.quoted($0.key.text), $0.value.text) }
                .sorted { $0.0.utf8.lexicographicallyPrecedes($1.0.utf8) }
                .map { $0 + ":" + $1 }.joined(separator: ",") + "}"
        }
    }
}
