package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A database is a Store in Postgres: a row for each event and each object.
type database struct{ pool *pgxpool.Pool }

// The lock keeps workers that start at once from creating the same table.
const schema = `
SELECT pg_advisory_xact_lock(4711836042);
CREATE TABLE IF NOT EXISTS fleet_events (
	record text COLLATE "C", number bigint, event bytea NOT NULL, PRIMARY KEY (record, number));
CREATE TABLE IF NOT EXISTS fleet_objects (name text COLLATE "C" PRIMARY KEY, data bytea NOT NULL);`

const uniqueViolation = "23505"

func openPostgres(ctx context.Context, location string) (Store, error) {
	config, err := pgxpool.ParseConfig(location)
	if err != nil {
		return nil, errors.New("open store: the postgres URL is not valid") // err contains most of it
	}
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "on" // whatever the server's default is
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	// Several statements are one transaction in the simple protocol.
	if _, err := pool.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &database{pool}, nil
}

func (d *database) Close() error {
	d.pool.Close()
	return nil
}

func (d *database) Append(ctx context.Context, record string, after int64, events [][]byte) error {
	if err := checkAppend(record, after, events); err != nil {
		return err
	}
	tag, err := d.pool.Exec(ctx, `
		INSERT INTO fleet_events SELECT $1, $2 + n, event FROM unnest($3::bytea[]) WITH ORDINALITY AS new(event, n)
		WHERE $2 = 0 OR EXISTS (SELECT FROM fleet_events WHERE record = $1 AND number = $2)`, record, after, events)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == uniqueViolation {
		return ErrBehind
	}
	if err == nil && tag.RowsAffected() == 0 {
		return errMissing(record, after)
	}
	return err
}

func (d *database) Read(ctx context.Context, record string, after int64) ([][]byte, error) {
	if err := checkName(record); err != nil {
		return nil, err
	}
	// The event with the number itself shows that the record has it.
	rows, err := d.pool.Query(ctx, `SELECT event FROM fleet_events WHERE record = $1 AND number >= $2 ORDER BY number`, record, after)
	if err != nil {
		return nil, err
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	switch {
	case err != nil || after == 0:
		return events, err
	case len(events) == 0:
		return nil, errMissing(record, after)
	}
	return events[1:], nil
}

func (d *database) Put(ctx context.Context, name string, data []byte) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	tag, err := d.pool.Exec(ctx, `INSERT INTO fleet_objects VALUES ($1, $2) ON CONFLICT DO NOTHING`, name, append([]byte{}, data...))
	return tag.RowsAffected() == 1, err
}

func (d *database) Get(ctx context.Context, name string) (data []byte, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	err = d.pool.QueryRow(ctx, `SELECT data FROM fleet_objects WHERE name = $1`, name).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("object %s: %w", name, fs.ErrNotExist)
	}
	return data, err
}

func (d *database) Owners(ctx context.Context, before string) ([]string, error) {
	rows, err := d.pool.Query(ctx, `
		SELECT split_part(record, '/', 1) COLLATE "C" AS owner FROM fleet_events WHERE record < $1 AND number = 1
		UNION SELECT split_part(name, '/', 1) FROM fleet_objects WHERE name < $1 ORDER BY owner`, before)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (d *database) Remove(ctx context.Context, owner string) error {
	_, err := d.pool.Exec(ctx, `
		WITH events AS (DELETE FROM fleet_events WHERE record = $1 OR record > $1 || '/' AND record < $1 || '0')
		DELETE FROM fleet_objects WHERE name = $1 OR name > $1 || '/' AND name < $1 || '0'`, owner) // 0 follows / in ASCII
	return err
}
