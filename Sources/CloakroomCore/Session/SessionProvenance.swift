/// What an OpenID Provider stated about the user of a session when it signed the user in, or at the last token refresh.
///
/// Sessions that were signed in to with credentials have none. Personal data, so printing yields `<redacted>`.
public struct SessionProvenance: Sendable, Equatable, Unprintable {
    /// The name of the identity in the configuration.
    public var identity: String
    /// `iss`.
    public var issuer: String
    /// `sub`: 1 to 255 bytes of visible ASCII, unique and never reassigned at the issuer (OpenID Connect Core §2).
    public var subject: String
    /// `sid`, the provider's identifier of its own session, 1 to 1,024 bytes; `nil` if the provider has none.
    public var providerSession: String?
    /// `auth_time`; `nil` for unknown.
    public var authenticatedAt: WallTime?
    /// `acr`; `nil` for unknown.
    public var acr: String?
    /// SHA-256 of the nonce of the login: an ID token of a refresh may contain no other nonce (§12.2).
    public var nonceHash: [UInt8]
    /// The kept claims: a JSON object in UTF-8, at most 16 KiB.
    public var claims: [UInt8]
    /// The ID token, for `id_token_hint`; `nil` if it is not kept.
    public var idToken: Secret?

    package init(
        identity: String, issuer: String, subject: String, providerSession: String? = nil,
        authenticatedAt: WallTime? = nil, acr: String? = nil, nonceHash: [UInt8], claims: [UInt8],
        idToken: Secret? = nil
    ) {
        self.identity = identity
        self.issuer = issuer
        self.subject = subject
        self.providerSession = providerSession
        self.authenticatedAt = authenticatedAt
        self.acr = acr
        self.nonceHash = nonceHash
        self.claims = claims
        self.idToken = idToken
    }
}

/// The session of a user at a provider, of which several sessions here may be part.
public struct ProviderSession: Sendable, Hashable, Unprintable {
    /// `iss`.
    public var issuer: String
    /// `sid`.
    public var id: String

    package init(issuer: String, id: String) {
        self.issuer = issuer
        self.id = id
    }
}

extension ProviderSession {
    /// Both parts, so that no two sessions have the same bytes. The first byte distinguishes them from the bytes of an
    /// ``AccountName``, which are hashed under the same key.
    public var canonicalBytes: [UInt8] {
        let issuer = Array(issuer.utf8)
        return [4] + UInt64(issuer.count).bigEndianBytes + issuer + Array(id.utf8)
    }
}

extension AccountHasher {
    /// Returns the hash of a session at a provider for new entries.
    public func hash(_ session: ProviderSession) -> UInt64 { newest.hash(session.canonicalBytes) }

    /// Returns all hashes of a session at a provider, the newest first.
    public func candidateHashes(_ session: ProviderSession) -> [UInt64] {
        let bytes = session.canonicalBytes
        return keys.map { $0.hash(bytes) }
    }
}

/// What few sessions have, shared by the session objects that follow each other at refreshes: the provenance, the key of
/// the device, and the terms and the name of an app.
final class SharedProvenance: Sendable {
    let provenance: SessionProvenance?
    let device: DeviceBinding?
    let terms: SessionTerms?
    let app: String?
    private let parsedClaims = ReferenceSetOnce<SessionClaims>()

    /// - Returns: `nil` if there is nothing.
    init?(_ provenance: SessionProvenance?, device: DeviceBinding?, terms: SessionTerms?, app: String?) {
        guard provenance != nil || device != nil || terms != nil || app != nil else { return nil }
        self.provenance = provenance
        self.device = device
        self.terms = terms
        self.app = app
    }

    /// The claims, parsed when they are needed for the first time.
    var claims: SessionClaims? {
        // Most requests: without a copy of the provenance.
        if let parsed = parsedClaims.load() { return parsed }
        return provenance.map { parsedClaims.storeIfNil(SessionClaims($0)) }
    }
}

extension SessionProvenance {
    /// The provider's session; `nil` if the provider has none.
    public var session: ProviderSession? { providerSession.map { ProviderSession(issuer: issuer, id: $0) } }
    /// The account of the user: shared by all identities with this issuer.
    public var account: AccountName { AccountName(issuer: issuer, subject: subject) }
}
