import CloakroomCore

/// Forwards the server's invalidations of keys that were read here to the session cache.
///
/// Invalidations of leases, reasons and the throttle's keys arrive as well, because the server tracks every read. They
/// are ignored: these values are not cached.
struct InvalidationForwarder: ValkeyPushDelegate {
    let keys: ValkeyKeys
    let changes: any RecordChangeDelegate

    func connectionChanged(isUp: Bool) {
        changes.connectionChanged(isUp: isUp)
    }

    func pushed(_ message: [RESPValue]) {
        guard message.count >= 2, message[0].text == "invalidate" else { return }
        guard let names = message[1].elements else {
            // Without names: the whole database was emptied.
            changes.allRecordsChanged()
            return
        }
        for name in names {
            if let id = name.bytes.flatMap(keys.session(named:)) { changes.recordChanged(id) }
        }
    }
}
