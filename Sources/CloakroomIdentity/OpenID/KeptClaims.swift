import CloakroomCore

/// The claims of a user that a session keeps: the configured ones, as a JSON object.
enum KeptClaims {
    /// The document of a user without claims.
    static let none = Array("{}".utf8)

    /// Selects the configured claims, in their configured order. A claim within objects stays within them, without
    /// their other members.
    ///
    /// Aggregated and distributed claims (`_claim_names`, OpenID Connect Core §5.6.2) are not followed: such a claim is
    /// absent.
    /// - Parameter tokens: What the provider issued. The claims are sent to the user's client and to upstreams, tokens are
    ///   not: claims that contain one are rejected.
    /// - Throws: `claimsTooLarge`, or `invalidResponse` for claims that contain a token.
    static func select(
        from claims: [JSONMemberName: JSONValue], _ kept: IdentityConfiguration.KeptClaims, without tokens: TokenSet
    ) throws(ResponseDefect) -> [UInt8] {
        let all = JSONValue.object(claims)
        var names: [JSONMemberName] = []
        var tree: [JSONMemberName: JSONValue] = [:]
        for claim in kept.claims {
            guard let name = claim.path.first, let value = all[claim: claim] else { continue }
            if !names.contains(name) { names.append(name) }
            tree[name, default: .object([:])].set(value, at: claim.path.dropFirst())
        }
        let members = names.map { JSONString.quoted($0.text) + ":" + (tree[$0] ?? .null).json }
        let document = Array(("{" + members.joined(separator: ",") + "}").utf8)
        guard document.count <= max(kept.bytes, none.count) else { throw .claimsTooLarge }
        guard !UserDocument.contains(tokens, in: document) else { throw .invalidResponse }
        return document
    }
}

extension JSONValue {
    /// Sets the value that members lead to, and creates the objects around it.
    fileprivate mutating func set(_ value: JSONValue, at path: ArraySlice<JSONMemberName>) {
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
    fileprivate var json: String {
        switch self {
        case .null: "null"
        case .bool(let flag): flag ? "true" : "false"
        // A number from 2^53 on may be that of the document or its neighbour. It becomes what equals no number and what
        // no claim header can contain.
        case .number(let number):
            JSONValue.exactText(of: number) ?? (number.magnitude < 9_007_199_254_740_992 ? "\(number)" : "{}")
        case .string(let text): JSONString.quoted(text)
        case .array(let items): "[" + items.map(\.json).joined(separator: ",") + "]"
        case .object(let members):
            "{"
                + members.map { (JSONString.quoted($0.key.text), $0.value.json) }
                .sorted { $0.0.utf8.lexicographicallyPrecedes($1.0.utf8) }
                .map { $0 + ":" + $1 }.joined(separator: ",") + "}"
        }
    }
}
