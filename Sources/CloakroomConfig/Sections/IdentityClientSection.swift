import CloakroomCore

extension IdentityClientConfiguration {
    private enum Method: String, CaseIterable {
        case client_secret_basic, client_secret_post, private_key_jwt, none
    }

    /// `client` of an identity. The methods with a secret require it; `private_key_jwt` requires `keyFile`.
    /// - Returns: `nil` if a required key is missing or malformed.
    init?(from scope: ConfigScope) {
        let id = scope.required("id", as: .clientID)
        let method = scope.value("authentication", as: Self.methods, default: .client_secret_basic)
        let secret = scope.secret("secret", as: .password, isRequired: false)
        let keyFile = scope.optional("keyFile", as: scope.pemFile(.privateKey))
        if let keyFile { scope.warnAboutAccess(to: keyFile, at: "keyFile") }
        let keyID = scope.optional("keyID", as: .text)
        let algorithm = scope.value("algorithm", as: .assertionAlgorithm, default: .es256)
        let audience = scope.value("assertionAudience", as: .choice(), default: AssertionAudience.issuer)
        let usesKey = method == .private_key_jwt
        for name in usesKey ? ["secret", "secretFile"] : ["keyFile", "keyID", "algorithm", "assertionAudience"]
        where scope.isSetExplicitly(name) && !scope.isInvalid("authentication") {
            scope.report(
                "conflicts with authentication \(method.rawValue)",
                usesKey ? "leave it out" : "leave it out, or write authentication: private_key_jwt", at: name)
        }
        Self.reportMissing(usesKey ? "keyFile" : "secret", scope, method)
        guard let id else { return nil }
        if usesKey {
            guard let keyFile else { return nil }
            self.init(
                id: id,
                authentication: .privateKey(
                    AssertionKey(keyFile: keyFile, keyID: keyID, algorithm: algorithm, audience: audience)))
        } else {
            guard let secret else { return nil }
            self.init(id: id, authentication: method == .client_secret_post ? .post(secret) : .basic(secret))
        }
    }

    private static func reportMissing(_ name: String, _ scope: ConfigScope, _ method: Method) {
        guard scope.isPresent, !scope.isInvalid("authentication"), !scope.isSet(name), !scope.isSet(name + "File"),
            !scope.isInvalid(name), !scope.isInvalid(name + "File")
        else { return }
        scope.reportMissing(
            name, "the authentication is \(method.rawValue)",
            name == "keyFile" ? "name a PEM file" : "name a file that holds it in secretFile")
    }

    private static let methods = ValueFormat<Method>(
        "`client_secret_basic`, `client_secret_post`, `private_key_jwt`", render: { $0.rawValue }
    ) { text throws(ConfigValueError) in
        let remedy = "write client_secret_basic, client_secret_post or private_key_jwt"
        guard let method = Method(rawValue: text) else {
            throw ConfigValueError("must be one of the allowed values, not \(text.quoted)", remedy)
        }
        try require(method != .none, "none is not supported: the gateway is a confidential client", remedy)
        return method
    }
}
