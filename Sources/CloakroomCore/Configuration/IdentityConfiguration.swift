/// An OpenID Provider that signs users in. Every session belongs to one identity, by name.
public struct IdentityConfiguration: Sendable, Equatable {
    /// Whether authorization requests are pushed (RFC 9126).
    public enum PushedRequests: String, Sendable, Hashable, CaseIterable {
        /// If the provider has the endpoint.
        case auto
        /// Always; without the endpoint logins fail.
        case always
        case never
    }

    /// Where the claims of a user come from.
    public enum UserSource: String, Sendable, Hashable, CaseIterable {
        case idToken
        /// The userinfo endpoint (OpenID Connect Core §5.3), at sign-in and after each token refresh.
        case userInfo
    }

    /// The claims that a session keeps.
    public struct KeptClaims: Sendable, Equatable {
        /// The claims, at most 32.
        public var claims: [ClaimName] = ["name", "preferred_username", "email", "email_verified", "groups"]
        /// The maximum size of all claims as JSON in bytes, 0...16,384; a user with larger claims cannot sign in.
        public var bytes = 4_096
    }

    /// A token exchange for one upstream (RFC 8693).
    public struct Exchange: Sendable, Equatable {
        /// Index of the upstream in ``GatewayConfiguration/upstreams``.
        public var upstream: Int
        /// The logical name of the target service; `nil` if ``resource`` is used.
        public var audience: String?
        /// The URI of the target service; `nil` if ``audience`` is used.
        public var resource: String?
        /// The requested scope; `nil` for the provider's default.
        public var scope: String?

        package init(upstream: Int, audience: String? = nil, resource: String? = nil, scope: String? = nil) {
            self.upstream = upstream
            self.audience = audience
            self.resource = resource
            self.scope = scope
        }
    }

    /// Which access tokens of clients are accepted (RFC 9068).
    public struct AccessTokens: Sendable, Equatable {
        /// One of them has to be in `aud`. At least one, and none is the client id of the gateway.
        public var audience: [String] = []
        /// The permitted types, ``TokenType/accessToken`` or ``TokenType/jwt``. At least one.
        public var types = [TokenType.accessToken]
        /// The maximum time until `exp`, 1 min to 1 day.
        public var maximumAge: Duration = .seconds(3_600)
        /// The permitted clients; empty for all but the gateway.
        public var clients: [String] = []
        /// Whether tokens may or must be bound to a key of the client (RFC 9449).
        public var dpop = Binding.optional
        /// How the provider is asked about each token; `nil` if its keys verify them.
        public var introspection: Introspection?

        /// Which tokens are accepted: those without a key, both, or those with one.
        public enum Binding: String, Sendable, Equatable, CaseIterable {
            case off, optional, required
        }

        package init() {}
    }

    /// How a provider is asked about tokens (RFC 7662).
    public struct Introspection: Sendable, Equatable {
        /// How long an active token is valid without another question, 0 s to 5 min.
        public var cache = Duration.seconds(30)
        /// How long a rejected token is invalid without another question, 0 s to 1 min.
        public var rejected = Duration.seconds(5)
        /// The time limit of a call, 100 ms to 10 s.
        public var timeout = Duration.seconds(2)

        package init() {}
    }

    /// The logout at the provider (OpenID Connect RP-Initiated Logout 1.0).
    public struct Logout: Sendable, Equatable {
        /// Whether a sign-out continues at the provider.
        public var isEnabled = true
        /// Whether the ID token is kept for `id_token_hint`: about 1 KB for each session.
        public var sendsHint = true
        /// The path at the gateway where the provider sends the browser afterwards.
        public var returnTo = "/"
    }

    /// A configured parameter of the authorization request.
    public struct Parameter: Sendable, Equatable {
        /// The parameters that the gateway sets itself. The configuration cannot set them.
        package static let ownNames: Set<String> = [
            "response_type", "response_mode", "client_id", "client_secret", "client_assertion", "client_assertion_type",
            "redirect_uri", "scope", "state", "nonce", "code_challenge", "code_challenge_method", "acr_values",
            "max_age", "request", "request_uri", "id_token_hint", "claims",
        ]

        /// The name.
        public var name: String
        /// The value.
        public var value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// A parameter of the authorization request that a client may set in the query of a login.
    public struct PassedParameter: Sendable, Equatable {
        /// The values that are passed on.
        public enum Values: Sendable, Equatable {
            /// Text of 1 to this number of bytes, without control characters.
            case length(Int)
            /// One of these.
            case listed([String])
        }

        /// The parameters that the gateway sets or reads itself, in lower case. The configuration cannot pass them on.
        package static let reservedNames = Parameter.ownNames.union([
            "returnto", "identity", "for", "persistent", "foreign", "app",
        ])
        /// The parameter that names a user. Another site could choose the account with it.
        package static let loginHint = "login_hint"

        /// The name.
        public var name: String
        /// The values that are passed on.
        public var values: Values

        package init(_ name: String, _ values: Values) {
            self.name = name
            self.values = values
        }

        /// Whether a value may be passed on.
        package func permits(_ value: String) -> Bool {
            switch values {
            case .length(let limit):
                !value.isEmpty && value.utf8.count <= limit
                    && value.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
            case .listed(let texts): texts.contains { $0.utf8.elementsEqual(value.utf8) }
            }
        }
    }

    /// The name, unique among identities and upstreams that sign users in.
    public var name: String
    /// The issuer, compared by bytes (OpenID Connect Discovery §4.3).
    public var issuer: String
    /// The registration of the gateway at the provider.
    public var client: IdentityClientConfiguration
    /// The requested scopes; `openid` is among them.
    public var scopes = ["openid", "profile", "email"]
    /// More parameters of the authorization request.
    public var parameters: [Parameter] = []
    /// Parameters that clients may set. A value of a client replaces one of ``parameters``.
    public var passParameters: [PassedParameter] = []
    /// Whether authorization requests are pushed.
    public var pushed: PushedRequests = .auto
    /// The algorithms with which the provider may sign tokens. At least one.
    public var algorithms = SignatureAlgorithm.defaults
    /// The permitted difference of the clocks, 0 s to 5 min.
    public var clockSkew: Duration = .seconds(30)
    /// Where the claims come from.
    public var userSource: UserSource = .idToken
    /// The claims that sessions keep.
    public var keep = KeptClaims()
    /// Indices of the upstreams that receive the access token if a route injects `bearer`.
    public var tokensFor: [Int] = []
    /// Token exchanges, at most one for each upstream.
    public var exchanges: [Exchange] = []
    /// The error codes of a token refresh that end the session (RFC 6749 §5.2), or
    /// ``IdentityEndpointConfiguration/any400``.
    public var endsOn = ["invalid_grant"]
    /// The logout at the provider.
    public var logout = Logout()
    /// The name that users see on the sign-in page; `nil` is ``name``. See ``displayName``.
    public var label: String?
    /// PEM file of the trust roots for connections to the provider; `nil` uses the system's trust roots.
    public var caFile: String?
    /// Where the gateway reaches the provider.
    public var endpoints = ProviderEndpoints()
    /// Which access tokens of clients are accepted; `nil` for none.
    public var accessTokens: AccessTokens?

    /// The name that users see on the sign-in page.
    public var displayName: String { label ?? name }
    /// The source of the sessions that are signed in to at the provider.
    public var source: SessionSource { SessionSource(identity: name, issuer: issuer) }
}

extension IdentityConfiguration {
    package init(name: String, issuer: String, client: IdentityClientConfiguration) {
        self.init(name: name, issuer: issuer, client: client, label: nil)
    }
}

/// The registration of the gateway at a provider: a confidential client (RFC 6749 §2.1).
public struct IdentityClientConfiguration: Sendable, Equatable {
    /// What the assertion of a client names as its audience.
    public enum AssertionAudience: String, Sendable, Hashable, CaseIterable {
        /// The issuer: no other provider accepts the assertion.
        case issuer
        /// The token endpoint, which some providers require.
        case tokenEndpoint
    }

    /// A private key for assertions (RFC 7523).
    public struct AssertionKey: Sendable, Equatable {
        /// The path of the PEM file.
        public var keyFile: String
        /// The `kid` in the header of assertions; `nil` for none.
        public var keyID: String?
        /// The algorithm; it fits the key.
        public var algorithm: SignatureAlgorithm
        /// The audience of assertions.
        public var audience: AssertionAudience

        package init(
            keyFile: String, keyID: String? = nil, algorithm: SignatureAlgorithm = .es256,
            audience: AssertionAudience = .issuer
        ) {
            self.keyFile = keyFile
            self.keyID = keyID
            self.algorithm = algorithm
            self.audience = audience
        }
    }

    /// How the gateway authenticates to the provider (OpenID Connect Core §9).
    public enum Authentication: Sendable, Equatable {
        /// The secret in `Authorization: Basic`.
        case basic(Secret)
        /// The secret in the form.
        case post(Secret)
        /// An assertion, signed with a private key.
        case privateKey(AssertionKey)

        /// The registered name of the method.
        public var name: String {
            switch self {
            case .basic: "client_secret_basic"
            case .post: "client_secret_post"
            case .privateKey: "private_key_jwt"
            }
        }
    }

    /// The client id.
    public var id: String
    /// How the gateway authenticates.
    public var authentication: Authentication

    package init(id: String, authentication: Authentication) {
        self.id = id
        self.authentication = authentication
    }
}

/// An asymmetric signature algorithm of JOSE (RFC 7518 §3.1, RFC 8037 §3.1). `none` and the symmetric ones do not exist
/// here, so no configuration can permit them.
public enum SignatureAlgorithm: String, Sendable, Hashable, CaseIterable {
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    case edDSA = "EdDSA"

    /// The algorithms that are permitted by default.
    public static let defaults: [SignatureAlgorithm] = [.rs256, .ps256, .es256, .edDSA]
    /// The algorithms that the gateway can sign assertions with.
    public static let assertions: [SignatureAlgorithm] = [.es256, .rs256, .ps256, .edDSA]
}

/// How users sign in at a provider.
public struct LoginConfiguration: Sendable, Equatable {
    /// The maximum duration of a login. Not configurable.
    public var timeout: Duration = .seconds(600)
    /// The maximum number of logins in progress of one browser; a further one replaces the oldest. Each has a
    /// cookie, so their number is that of a few tabs.
    public static let pending = 3
    /// The path where the browser continues if the login did not request another.
    public var returnTo = "/"
}

/// What users may sign in with.
public enum SignInSource: Sendable, Hashable {
    /// The provider with this index in ``GatewayConfiguration/identities``.
    case provider(Int)
    /// The upstream that signs users in.
    case upstream(Int)
}
