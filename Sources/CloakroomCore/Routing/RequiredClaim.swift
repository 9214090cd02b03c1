/// A claim and what is required of its values. All parts that have values have to be met, and the user has to have the
/// claim.
///
/// A claim is a string or a Boolean, or a list with such items. Values are compared by bytes; a Boolean is equal to `true`
/// or `false`. A claim or an item of another type, also a number that is written alike, is not equal to any value.
public struct RequiredClaim: Sendable, Hashable {
    /// Values of a claim.
    public struct Values: Sendable, Hashable {
        /// The values, at most 256.
        public let texts: [String]
        /// The values in UTF-8. A set, because a user may have thousands of groups.
        fileprivate let bytes: Set<[UInt8]>

        fileprivate init(_ texts: [String]) {
            self.texts = texts
            bytes = Set(texts.map { Array($0.utf8) })
        }

        /// Whether there are none, so that they require nothing.
        public var isEmpty: Bool { texts.isEmpty }

        /// Whether one of them is equal to a claim or an item of it; `nil` for an item that equals no value.
        fileprivate func contains(_ item: [UInt8]?) -> Bool? { item.map { bytes.contains($0) } }
    }

    /// The claim.
    public let name: ClaimName
    /// The acceptable values: the claim, or an item of it, has to be equal to one of them.
    public let acceptable: Values
    /// The claim, or an item of it, has to be equal to each of them.
    public let necessary: Values
    /// Neither the claim nor an item of it may be equal to one of them. An item of another type could be meant to be, so
    /// that a claim with one is not permitted either.
    public let excluded: Values

    package init(_ name: ClaimName, in acceptable: [String] = [], all: [String] = [], none: [String] = []) {
        self.name = name
        self.acceptable = Values(acceptable)
        necessary = Values(all)
        excluded = Values(none)
    }

    /// Whether the claims of a user meet the requirement.
    func isMet(by claims: JSONValue) -> Bool {
        guard let claim = claims[claim: name] else { return false }
        guard case .array(let items) = claim else { return isMet(byItems: CollectionOfOne(claim)) }
        return isMet(byItems: items)
    }

    private func isMet(byItems items: some Collection<JSONValue>) -> Bool {
        let values = items.lazy.map(\.comparable)
        guard acceptable.isEmpty || values.contains(where: { acceptable.contains($0) == true }) else { return false }
        guard necessary.isEmpty || necessary.bytes.isSubset(of: values.compactMap(\.self)) else { return false }
        return excluded.isEmpty || values.allSatisfy { excluded.contains($0) == false }
    }

    /// Whether every user who meets this requirement clearly meets the other one too.
    func implies(_ other: RequiredClaim) -> Bool {
        guard name == other.name else { return false }
        let certain = acceptable.bytes.count == 1 ? necessary.bytes.union(acceptable.bytes) : necessary.bytes
        let hasOne = !acceptable.isEmpty && acceptable.bytes.isSubset(of: other.acceptable.bytes)
        return (other.acceptable.isEmpty || hasOne || !certain.isDisjoint(with: other.acceptable.bytes))
            && other.necessary.bytes.isSubset(of: certain) && other.excluded.bytes.isSubset(of: excluded.bytes)
    }
}

extension JSONValue {
    /// What is compared with required values; `nil` for what equals none.
    fileprivate var comparable: [UInt8]? {
        switch self {
        case .string(let text): Array(text.utf8)
        case .bool(let flag): Array((flag ? "true" : "false").utf8)
        case .null, .number, .array, .object: nil
        }
    }
}
