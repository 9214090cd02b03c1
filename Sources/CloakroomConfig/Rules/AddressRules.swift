import CloakroomCore

/// Rejects two listeners on the same port.
enum ListenerAddressValidation {
    static func check(_ listeners: [ListenerSection], admin: AdminSection) {
        for (index, listener) in listeners.enumerated() {
            guard let address = listener.address, address.port != 0 else { continue }
            for other in listeners[..<index] where other.address == address {
                listener.scope.report(
                    ConfigValueError("conflicts with another listener on \(address)", "choose another port"),
                    at: "address")
                break
            }
        }
        guard let address = admin.configuration?.address, address.port != 0,
            let listener = listeners.first(where: { $0.address?.port == address.port })
        else { return }
        if admin.scope.isSet("address") {
            admin.scope.report(
                ConfigValueError("conflicts with a client listener on port \(address.port)", "choose another port"),
                at: "address")
        } else {
            listener.scope.report(
                ConfigValueError(
                    "conflicts with the admin listener on port \(address.port)",
                    "choose another port, or set admin.address"),
                at: "address", becauseOf: [admin.scope.path + ["address"], admin.scope.path + ["enabled"]])
        }
    }
}
