import Synchronization

/// The claims of a session's user, parsed from ``SessionProvenance/claims``, and the header fields that contain them.
///
/// Parsed when a request needs them for the first time, and shared by the session objects that follow each other at
/// token refreshes while the provider states the same. Sessions that were signed in to with credentials have none.
/// Personal data, so printing yields the name of the type.
public final class SessionClaims: Sendable, Unprintable {
    /// The kept claims, with `iss` and `sub`: an object. Claims that cannot be parsed are no claims, so they meet no
    /// requirement.
    package let values: JSONValue
    /// The authentication context; `nil` for unknown.
    package let acr: String?
    /// When the user authenticated at the provider; `nil` for unknown.
    package let authenticatedAt: WallTime?
    private let fields = ReferenceSetOnce<HeaderFields>()
    /// The assertions in use, the oldest first. At most ``capacity``; the others are dropped when one is signed.
    let assertions = Mutex<[KeptAssertion]>([])
    /// What was judged by rules of routes: their serial number and, in the low byte, the verdict; 0 for none.
    private let verdicts = InlineArray<4, Atomic<UInt64>> { _ in Atomic(0) }

    /// The maximum number of header sets that are kept. Only a reload adds one, and a token refresh begins anew; beyond
    /// it fields are rendered for each request. Of assertions, the newest are kept.
    package static let capacity = 8

    /// Parses the claims of a provenance.
    package init(_ provenance: SessionProvenance) {
        var members: [JSONMemberName: JSONValue] = [:]
        if case .object(let kept)? = JSONValue(document: provenance.claims) { members = kept }
        // Verified with the ID token, whatever the kept claims contain.
        members["iss"] = .string(provenance.issuer)
        members["sub"] = .string(provenance.subject)
        values = .object(members)
        acr = provenance.acr
        authenticatedAt = provenance.authenticatedAt
    }

    /// The verdict that is kept about the claims by the rules of a route; `nil` for none.
    ///
    /// Only an equal serial number counts, and no other rules ever have it: those of other routes, of earlier and of later
    /// configurations do not. A token refresh with other claims begins anew.
    func verdict(by rules: SessionRules) -> UInt8? {
        let kept = verdicts[Self.slot(rules)].load(ordering: .relaxed)
        return kept >> 8 == rules.serial ? UInt8(truncatingIfNeeded: kept) : nil
    }

    /// Keeps a verdict, of at most four routes: the memory of a session does not depend on how many it uses.
    func keep(_ verdict: UInt8, by rules: SessionRules) {
        verdicts[Self.slot(rules)].store(rules.serial << 8 | UInt64(verdict), ordering: .relaxed)
    }

    /// Consecutive routes have different slots.
    private static func slot(_ rules: SessionRules) -> Int { Int(truncatingIfNeeded: rules.serial & 3) }

    /// The fields of a header set. A set is rendered once, and found with two loads by the requests that follow: no
    /// lock, no allocation.
    package func fields(for headers: ClaimHeaders) -> HeaderFields {
        var node = fields.load() ?? fields.storeIfNil(headers.fields(of: self))
        var count = 1
        while node.headers !== headers {
            guard count < Self.capacity else { return headers.fields(of: self) }
            node = node.next.load() ?? node.next.storeIfNil(headers.fields(of: self))
            count += 1
        }
        return node
    }

    struct KeptAssertion {
        let headers: ClaimHeaders
        /// With the lines of the claims.
        let lines: [UInt8]
        let issuedAt: WallTime

        /// Whether it is in the first half of its lifetime.
        func isInUse(at now: WallTime) -> Bool {
            issuedAt <= now && now - issuedAt < (headers.assertion?.lifetime ?? .zero) / 2
        }
    }

    /// Complete field lines for a request, with an assertion if the upstream gets one. It is signed when its upstream gets
    /// the first request, and again after half of its lifetime.
    /// - Parameters:
    ///   - session: The session of these claims.
    ///   - moment: The site of the session, and the time.
    package func lines(
        for headers: ClaimHeaders, of session: SessionKey, at moment: () -> (site: Int, now: WallTime)
    ) -> [UInt8] {
        let fields = fields(for: headers)
        guard let statement = fields.statement, let assertion = headers.assertion, let issuer = headers.issuer else {
            return fields.lines
        }
        let (site, now) = moment()
        return assertions.withLock { kept in
            if let found = kept.first(where: { $0.headers === headers }), found.isInUse(at: now) { return found.lines }
            let line = issuer.line(assertion, statement, of: session, site: site, now: now)
            let new = KeptAssertion(headers: headers, lines: fields.lines + line, issuedAt: now)
            // Those of earlier configurations too.
            kept.removeAll { $0.headers === headers || !$0.isInUse(at: now) }
            if kept.count >= Self.capacity { kept.removeFirst() }
            kept.append(new)
            return new.lines
        }
    }

    /// The header fields of one session for the header set of one configuration.
    package final class HeaderFields: Sendable, Unprintable {
        /// The set that was rendered.
        package let headers: ClaimHeaders
        /// Complete field lines with line ends; empty if there are none.
        package let lines: [UInt8]
        /// What an assertion states of the claims; `nil` if there is no assertion.
        let statement: String?
        /// The name of a claim that cannot be written; then there are no lines.
        package let unrepresentable: String?
        /// The fields of another set, for the same session.
        fileprivate let next = ReferenceSetOnce<HeaderFields>()

        init(_ headers: ClaimHeaders, lines: [UInt8], statement: String? = nil, unrepresentable: String? = nil) {
            self.headers = headers
            self.lines = lines
            self.statement = statement
            self.unrepresentable = unrepresentable
        }
    }
}
