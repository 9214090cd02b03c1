/// Request fields that could make an upstream use another method, path, host, client address or user than those that
/// the gateway has checked.
///
/// They are removed for every client, including trusted peers: a proxy that sets one of them forwards the others as its
/// own client sent them. A route may list those that its upstream needs. In trailers they are always removed.
public enum SpoofableFields {
    /// Those that name another method, path or host, which the routing of frameworks uses (CVE-2018-14773). Proxies in front
    /// set none of them.
    static let overrides = [
        "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Method", "X-Original-URL", "X-Original-Path",
        "X-Rewrite-URL", "X-Override-URL", "X-Script-Name", "Script-Name", "Path-Info", "X-Original-Host", "X-Host",
        "X-HTTP-Host-Override",
    ]

    private static let others = [
        // What nginx asks other proxies with.
        "X-Original-Method", "X-Original-URI",
        // Another client address: set by content delivery networks and load balancers.
        "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "X-True-Client-IP", "CF-Connecting-IP",
        "CF-Connecting-IPv6", "Fastly-Client-IP", "Fly-Client-IP", "X-Originating-IP", "X-ProxyUser-IP",
        "X-Azure-ClientIP", "Forwarded-For", "X-Forwarded",
        // Another user: set by authenticating proxies.
        "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Preferred-Username",
        "X-Forwarded-Access-Token", "X-Credential-Identifier", "X-Goog-IAP-JWT-Assertion", "Auth-User", "X-Auth-User",
        "X-Auth-Username", "X-Auth-Email", "X-User", "X-User-Id", "X-Username", "X-Userinfo", "X-Vouch-User",
        "X-Apigateway-Api-Userinfo", "X-Id-Token", "X-Access-Token", "X-JWT-Assertion",
        // Another client certificate (RFC 9440 and its predecessors).
        "Client-Cert", "Client-Cert-Chain", "X-Forwarded-Client-Cert", "X-ARR-ClientCert", "X-Client-Verify",
        "X-Client-DN",
        // Of a key that another party has: a part of `Authorization`, which is removed too (RFC 9449).
        "DPoP",
    ]

    static let names = overrides + others

    static let prefixes = [
        "Remote-", "X-Remote-", "X-Auth-Request-", "X-Authenticated-", "X-WebAuth-", "X-Authentik-", "X-Consumer-",
        "X-Goog-Authenticated-User-", "X-MS-Client-Principal", "X-Amzn-OIDC-", "Cf-Access-",
        "X-Pomerium-", "Tailscale-User-", "Impersonate-", "X-Appengine-User-", "SSL-Client-", "X-SSL-", "X-TLS-Client-",
        "X-Client-Cert", "X-Amzn-Mtls-Clientcert", "X-Envoy-", "OIDC-",
    ]

    private static let all = FieldNameSet(names, prefixes: prefixes)

    /// With those that proxies in front set, or remove from requests of clients.
    static let ofProxies = FieldNameSet(names + ["X-Real-IP"], prefixes: prefixes + ["X-Forwarded-"])

    /// Whether a field is removed from every request whose route does not list it.
    public static func contains(_ name: String) -> Bool {
        all.contains(name)
    }
}
