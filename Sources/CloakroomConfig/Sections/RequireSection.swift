import CloakroomCore

/// `require` of a route. Default none.
extension SessionRequirement {
    private static let maxAlternatives = 8

    init(from scope: ConfigScope) {
        self.init(parts: scope)
        device = scope.value("device", as: .flag, default: false)
        let items = scope.items("anyOf")
        anyOf = items.map(Self.init(parts:))
        scope.checkCount(
            items.count, most: Self.maxAlternatives, "alternatives", "write the values of one claim as one alternative",
            at: "anyOf")
        if items.isEmpty, scope.reading.tree[scope.path + ["anyOf"]] != nil, !scope.isInvalid("anyOf") {
            scope.report("must not be empty", "write at least one, or leave it out", at: "anyOf")
        }
        for (item, alternative) in zip(items, anyOf) {
            if alternative.isEmpty, !scope.reading.invalidKeys.contains(where: { $0.starts(with: item.path) }) {
                item.report("must contain claims, acr or maxAge: it would always be met", "write one of them")
            }
            if !acr.isEmpty, !alternative.acr.isEmpty {
                item.report("conflicts with acr of require", "keep one of the two", at: "acr")
            }
        }
    }

    private init(parts scope: ConfigScope) {
        self.init(
            claims: scope.claims("claims"),
            acr: scope.nonEmptyList("acr", as: .authenticationContext) ?? [],
            maxAge: scope.optional("maxAge", as: .duration(.seconds(1) ... .seconds(86_400))))
    }
}

/// `require.claims` of a route and `when` of a rate limit: by a claim, its acceptable values, or a section of `any`, `all`
/// and `none`. Default none.
extension ConfigScope {
    /// The maximum number of values in a list.
    private static let maxClaimValues = 256
    /// The lists of a section.
    private static let claimLists = ["any", "all", "none"]

    func claims(_ name: String) -> [RequiredClaim] {
        entries(name) { section, name -> RequiredClaim? in
            let claim: ClaimName
            do throws(ConfigValueError) { claim = try ValueFormat<ClaimName>.claimName.parse(name) } catch {
                section.report(error, at: name)
                return nil
            }
            let isSection = section.holdsSection(name)
            let plain = isSection ? nil : section.claimValues(name)
            guard isSection || reading.documentation != nil else { return plain.map { RequiredClaim(claim, in: $0) } }
            let scope = section.sectionWithDefaults(name)
            let lists = Self.claimLists.map { scope.claimValues($0) ?? [] }
            if !Self.claimLists.contains(where: scope.isSet) {
                section.report(
                    "must contain any, all or none", "write such as [staff], or {none: [suspended]}", at: name,
                    becauseOf: Self.claimLists.map { scope.path + [$0] })
            }
            return RequiredClaim(claim, in: lists[0], all: lists[1], none: lists[2])
        }.map(\.value)
    }

    private func claimValues(_ name: String) -> [String]? {
        let values = nonEmptyList(name, as: .text)
        checkCount(
            values?.count ?? 0, most: Self.maxClaimValues, "values", "let the provider state one value for all of them",
            at: name)
        return values
    }

    /// Whether a key has a section in the file, or flags set keys below it.
    func holdsSection(_ name: String) -> Bool {
        let key = path + [name]
        switch reading.tree[key]?.shape {
        case .section?, .empty?: return true
        case .scalar?, .list?: return false
        case nil: return reading.flagPaths.contains { $0.count > key.count && $0.starts(with: key) }
        }
    }
}

extension RequiredClaim {
    /// The requirement in a line: `claim groups in [staff], with none of [suspended]`.
    var summary: String {
        let parts = [("in", acceptable), ("with all of", necessary), ("with none of", excluded)]
        let texts = parts.filter { !$0.1.isEmpty }.map { word, values in
            "\(word) [\(values.texts.map(\.escaped).joined(separator: ", "))]"
        }
        return "claim \(name.description.escaped) \(texts.joined(separator: ", "))"
    }
}
