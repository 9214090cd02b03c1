import CloakroomCore
import CloakroomWire

/// `claimHeaders` of an upstream: by the name of a field, the name of a claim, or a section of `claim` and `join`. At
/// most 32; default none.
enum ClaimHeadersSection {
    /// The maximum number of fields of an upstream.
    static let most = 32

    /// - Parameter scope: The upstream.
    static func headers(_ scope: ConfigScope) -> [ClaimHeader] {
        let section = scope.section("claimHeaders")
        // For the reference: a value or a section, by any name.
        scope.reading.document(section.path + ["NAME"]) { $0.expectation = claim.expectation }
        scope.reading.document(section.path + ["NAME", "claim"]) {
            $0.expectation = claim.expectation
            $0.isRequired = true
        }
        scope.reading.document(section.path + ["NAME", "join"]) { $0.expectation = separator.expectation }
        guard !scope.reading.invalidKeys.contains(section.path) else { return [] }
        let names = scope.named("claimHeaders", isSection: false)
        scope.checkCount(names.count, most: most, "fields", at: "claimHeaders")
        var seen: [String: String] = [:]
        return names.compactMap { name in
            do throws(ConfigValueError) {
                try check(name, &seen)
            } catch {
                section.report(error, at: name)
            }
            guard section.holdsSection(name) else {
                return section.optional(name, as: claim).map { ClaimHeader(name, claim: $0) }
            }
            let header = section.sectionWithDefaults(name)
            let separator = header.optional("join", as: separator)
            return header.required("claim", as: claim).map { ClaimHeader(name, claim: $0, separator: separator) }
        }
    }

    /// - Parameter seen: The names so far, by their folded form.
    private static func check(_ name: String, _ seen: inout [String: String]) throws(ConfigValueError) {
        try check(name)
        if let other = seen.updateValue(name, forKey: FieldNameSet.folded(name)) {
            throw ConfigValueError(
                "conflicts with \(other), which upstreams may treat as the same field", "keep one of the two")
        }
    }

    /// Rejects what is no name, or has another meaning.
    static func check(_ name: String) throws(ConfigValueError) {
        try require(
            (try? ValueFormat<String>.token.parse(name)) != nil && name.utf8.count <= 255,
            "must be the name of a field, not \(name.quoted)", "write letters, digits and hyphens, such as X-User")
        let folded = FieldNameSet.folded(name)
        try require(
            !reserved.contains(folded) && !reservedPrefixes.contains(where: folded.hasPrefix),
            "\(name) is not supported: the field has another meaning", "write another name such as X-User")
    }

    /// Fields that frame a message, end at this hop, select content, or are set or read by the gateway.
    private static let reserved = APIToken.reserved.union(
        KnownField.allCases.map(\.text) + ["http2-settings", "range", "referer", "cookie2", "x-csrf-token"])
    private static let reservedPrefixes = ["accept", "access-control-", "content-", "if-", "proxy-", "sec-", "grpc-"]

    private static let claim = ValueFormat<ClaimName>.claimName

    /// Not a digit of a percent-encoded byte, so that a list can be separated again.
    private static let separator = ValueFormat(
        "punctuation character other than `%`", render: { String(Unicode.Scalar($0)) }
    ) { text throws(ConfigValueError) in
        guard text.utf8.count == 1, let byte = text.utf8.first, (0x21...0x7e).contains(byte),
            !byte.isLetterOrDigit, byte != UInt8(ascii: "%")
        else {
            throw ConfigValueError(
                "must be one punctuation character other than %, not \(text.quoted)", "write one such as \",\"")
        }
        return byte
    }
}

/// Validates claim headers against the fields of API tokens, and their claims against those that identities keep.
enum ClaimHeaderRules {
    static func check(_ upstreams: UpstreamsSection, _ identities: IdentitiesSection) {
        let tokens = Dictionary(
            upstreams.tokenHeaders.map { (FieldNameSet.folded($0), $0) }, uniquingKeysWith: { first, _ in first }
        )
        for (upstream, scope) in zip(upstreams.configurations, upstreams.scopes) where !upstream.claimHeaders.isEmpty {
            let section = scope.section("claimHeaders")
            for header in upstream.claimHeaders {
                if let token = tokens[FieldNameSet.folded(header.name)] {
                    section.report(
                        "conflicts with \(token), the field of an API token", "write another name", at: header.name)
                }
                if !identities.items.isEmpty {
                    identities.check(header.claim, "the field would never be sent", in: section, at: header.name)
                }
            }
            if identities.items.isEmpty {
                scope.warn(
                    "has no effect without identities: other sessions have no claims",
                    "leave it out, or add identities", at: "claimHeaders")
            }
        }
    }
}

extension IdentityConfiguration {
    /// Whether sessions may have a claim: it is kept, or every ID token or access token has it.
    func keeps(_ claim: ClaimName) -> Bool {
        claim == "sub" || claim == "iss" || claim == "scope" && accessTokens != nil
            || keep.claims.contains { $0.contains(claim) }
    }
}

extension IdentitiesSection {
    /// Whether sessions of an identity may have a claim. An invalid identity could keep it.
    func keeps(_ claim: ClaimName) -> Bool {
        configurations.count < items.count || configurations.contains { $0.keeps(claim) }
    }

    /// Reports a claim that no identity keeps.
    /// - Parameter effect: What follows from that.
    func check(_ claim: ClaimName, _ effect: String, in scope: ConfigScope, at key: String, item: Int? = nil) {
        guard !keeps(claim) else { return }
        scope.report(
            "requires a claim that no identity keeps: \(effect)",
            "add \(claim.description.escaped) to keep.claims of an identity", at: key, item: item)
    }
}
