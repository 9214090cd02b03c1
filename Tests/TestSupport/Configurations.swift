package import CloakroomCore
package import CloakroomWire

extension IdentityEndpointConfiguration {
    /// An identity call with some values other than the defaults.
    package init(
        method: String = "POST", path: String, credentials: CredentialFormat = .bearer,
        members: MemberNames = .defaults, fixedMembers: [NamedValue<String>] = [], client: Client? = nil,
        accessToken: String? = nil, refreshToken: String? = nil, expiresIn: String? = nil,
        success: SuccessMember? = nil, errorCode: String = "error", rejectedStatuses: Set<Int>? = nil,
        endsOn: Set<String>? = nil, userID: String = "id"
    ) {
        self.init(method: method, path: path, credentials: credentials, errorCode: errorCode, endsOn: endsOn)
        (self.members, self.fixedMembers, self.client) = (members, fixedMembers, client)
        if let accessToken { self.accessToken = accessToken }
        if let refreshToken { self.refreshToken = refreshToken }
        if let expiresIn { self.expiresIn = expiresIn }
        (self.success, self.rejectedStatuses, self.userID) = (success, rejectedStatuses, userID)
    }
}

extension RetryConfiguration {
    /// - Parameter attempts: `nil` for 2, and up to three targets for a connection.
    package init(
        attempts: Int? = nil, statuses: Set<Int> = [], methods: Set<RequestMethod> = [.get, .head, .options],
        budget: Double = 0.1, perSecond: Int = 3, attemptTimeout: Duration = .zero
    ) {
        var changed = Self()
        // Not a property of `self`, whose observers an initialiser does not call.
        if let attempts { changed.attempts = attempts }
        (changed.statuses, changed.methods, changed.budget) = (statuses, methods, budget)
        (changed.perSecond, changed.attemptTimeout) = (perSecond, attemptTimeout)
        self = changed
    }
}

extension IdentityStatus {
    /// The state of a provider that is not down.
    package init(
        name: String, issuer: String, condition: Condition, keys: Int = 0, skippedKeys: Int = 0,
        keysFetchedAt: WallTime? = nil, findings: [String] = [], lastFailure: FailureStatus? = nil
    ) {
        self.init(name: name, issuer: issuer)
        (self.condition, self.keys, self.skippedKeys) = (condition, keys, skippedKeys)
        (self.keysFetchedAt, self.findings, self.lastFailure) = (keysFetchedAt, findings, lastFailure)
    }
}
